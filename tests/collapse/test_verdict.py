"""Curves in words: true to the curves, and honest where they say nothing."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collapse.test_apart import DEEP
from segre.checkpoint.inputs import random_tokens
from segre.checkpoint.runnable import load
from segre.collapse.curves import Curve, Curves, curves
from segre.collapse.variants import ALL, Variant, variant
from segre.collapse.verdict import advice

DOWN = (0.6, 1e-2, 1e-4, 1e-7)
UP = (0.6, 0.5, 0.5, 0.5)


def made(**values: Sequence[float]) -> Curves:
    """Curves with these relative residuals, by the names of variants."""
    found = [one(variant(name.replace("_", "+")), means) for name, means in values.items()]
    inputs = {"kind": "random tokens", "count": 1, "length": 4, "seed": 0}
    return Curves({"weights": "random"}, inputs, tuple(found))


def one(cut: Variant, means: Sequence[float], sizes: Sequence[float] | None = None) -> Curve:
    relative = np.array(means)[:, None]
    size = np.ones_like(relative) if sizes is None else np.array(sizes)[:, None]
    return Curve(cut, {"relative": relative, "size": size})


def test_the_published_picture_in_words() -> None:
    said = advice(made(attention=DOWN, attention_mlp=DOWN, attention_skip=UP, full=UP))
    assert said[1:] == [
        "The model does not collapse: 0.6 before the first layer, 0.5 after layer 3.",
        "attention collapses: below 0.001 from layer 2 on; from layer 3 on it is below the "
        "resolution of single precision (9.5e-07).",
        "attention+mlp collapses: below 0.001 from layer 2 on; from layer 3 on it is below the "
        "resolution of single precision (9.5e-07).",
        "attention+skip does not collapse: 0.6 before the first layer, 0.5 after layer 3.",
        "Skips prevent collapse: attention+skip against attention, full against attention+mlp.",
        "MLPs do not prevent collapse: attention+mlp and attention both collapse.",
    ]
    assert "trained weights may behave differently" in said[0]


def test_what_is_continued_is_said_of_the_first_input() -> None:
    basis = made(attention=DOWN)
    past = np.array([-0.2, -2.0, -4.0, -12.3])
    curve = replace(basis.curves[0], past=past)
    said = advice(replace(basis, curves=(curve,)))[1]
    assert said == (
        "attention collapses: below 0.001 from layer 2 on, and 5.0e-13 after layer 3 (the "
        "first input)."
    )


def test_what_rises_from_rounding_is_no_evidence() -> None:
    """Below the floor nothing is known of what comes after."""
    said = advice(made(full=(0.6, 1e-8, 0.5, 0.5), attention=(0.6, 0.5, 0.5, 0.5)), 1e-9)
    assert said[1] == (
        "The model cannot be judged: from layer 1 on its residual is only rounding of single "
        "precision (below 9.5e-07)."
    )


@given(st.lists(st.floats(1e-6, 2), min_size=2, max_size=8), st.floats(1e-5, 1))
def test_the_layer_named_is_the_first_from_which_all_are_below(
    means: list[float], threshold: float
) -> None:
    sentence = advice(made(full=means), threshold)[1]
    below = [all(x < threshold for x in means[layer:]) for layer in range(len(means))]
    if any(below):
        assert f"collapses: below {threshold:g} from layer {below.index(True)} on" in sentence
    else:
        assert sentence.startswith("The model does not collapse: ")
        assert f"after layer {len(means) - 1}" in sentence


def test_where_nothing_collapses_it_says_so_and_no_part_is_praised() -> None:
    said = advice(made(attention=UP, attention_skip=UP, full=UP))
    assert said[-1] == "Nothing collapses within 3 layers."
    assert not any("cause" in sentence or "prevent" in sentence for sentence in said)


def test_a_dip_is_no_collapse() -> None:
    said = advice(made(full=(0.5, 1e-5, 0.4, 0.4)))
    assert "does not collapse" in said[1]


def test_a_slow_fall_is_said_with_what_would_come_of_it() -> None:
    said = advice(made(full=[0.5**k for k in range(7)]))[1]
    assert said.endswith(
        ", falling by a factor of 0.5 per layer in layers 4 to 6; at that rate it would collapse "
        "after about 10 layers."
    )
    slower = advice(made(full=[0.9**k for k in range(7)]))[1]
    assert slower.endswith(", falling by a factor of 0.9 per layer in layers 4 to 6.")


def test_a_part_may_bring_it_about() -> None:
    said = advice(made(attention_skip=UP, full=DOWN))
    assert "MLPs cause collapse: full against attention+skip." in said


def test_numbers_that_are_lost_are_no_evidence() -> None:
    bare = Variant(skip=False, norm=False)
    vanished = one(bare, (0.6, 0.5, 0, 0), (1, 1e-12, 1e-36, 0))
    broken = one(Variant(norm=False), (0.6, np.nan, np.nan, np.nan), (1, np.nan, np.nan, np.nan))
    late = one(Variant(False, False, False), DOWN, (1, 1e-10, 1e-20, 1e-40))
    basis = made(full=UP)
    said = advice(Curves(basis.model, basis.inputs, (*basis.curves, vanished, broken, late)))
    assert said[2:5] == [
        "attention+mlp-norm cannot be judged: 0.5 after layer 1, then its numbers vanish at "
        "layer 2.",
        "full-norm cannot be judged: 0.6 after layer 0, then its numbers are not finite at "
        "layer 1.",
        "attention-norm collapses: below 0.001 from layer 2 on; its numbers vanish at layer 3.",
    ]
    assert not any("hold" in sentence or "Nothing" in sentence for sentence in said[5:])


def test_of_a_real_model() -> None:
    loaded = load(DEEP["bert"].replace("t=12", "t=16"))
    said = advice(curves(loaded, random_tokens(loaded, 3, 16), ALL))
    assert said[1].startswith("The model does not collapse")
    assert any(sentence.startswith("Skips prevent collapse: ") for sentence in said)
    assert any(sentence.startswith("MLPs do not prevent collapse: ") for sentence in said)
    assert len(said) >= 1 + len(ALL)
