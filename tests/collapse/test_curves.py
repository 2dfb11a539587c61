"""Curves of real models: the measures of their streams, and what attention does to tokens."""

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from bench.collapse import cost

from collapse.test_apart import DEEP
from collapse.test_variants import streams
from segre.checkpoint.inputs import Inputs, random_tokens
from segre.checkpoint.model import Model
from segre.checkpoint.runnable import load
from segre.collapse import curves as module
from segre.collapse.curves import Curve, curves
from segre.collapse.residual import mean_cosine, ranks, relative_residual
from segre.collapse.streams import of_streams
from segre.collapse.variants import ALL, ALONE, FULL, PAPER, Variant, variant
from support.small_models import CAUSAL, FAMILIES, POST, small, tokens

MEASURES = ("relative", "relative_frobenius", "cosine", "size")


def deep(family: str, layers: int = 8, seed: int = 0) -> Model:
    """A model with random weights, as before training."""
    given = family.replace("_", "-")
    text = DEEP.get(given, DEEP["llama"].replace("llama", given))
    return load(re.sub(r"layers=\d+", f"layers={layers}", text).replace("/t=12", "/t=16"), seed)


# --- what is measured ------------------------------------------------------------------------


# without norms and skips, lightning layers leave less of a stream than single precision holds
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "minimax"])
def test_curves_are_the_measures_of_the_streams(family: str) -> None:
    loaded, inputs = small(family), random_tokens(small(family), 5, 9)
    found = curves(loaded, inputs, ALL, ranks=True)
    every_stream = streams(loaded, inputs.batches[0], list(ALL), np.float32)
    for curve, seen in zip(found.curves, every_stream, strict=True):
        for depth, X in enumerate(seen):
            every, exact = ranks(X), X.astype(float)
            size = np.sqrt((exact**2).mean(axis=(1, 2)))
            frobenius = relative_residual(exact, "frobenius")
            rights = (relative_residual(exact), frobenius, mean_cosine(exact), size)
            for name, right in zip(MEASURES, rights, strict=True):
                error = np.abs(curve.values[name][depth] - right)
                assert (error <= 1e-5 * np.abs(right) + 3e-6).all()
            assert np.array_equal(curve.values["rank"][depth], every["rank"])
            assert np.allclose(curve.spectrum[depth], every["spectrum"].mean(0))


@pytest.mark.parametrize("n", [2, 3, 100, 129])
def test_equal_tokens_have_no_residual(n: int) -> None:
    X = np.random.default_rng(n).standard_normal((4, 1, 50), dtype=np.float32).repeat(n, 1)
    found = of_streams(X)
    assert not found["relative"].any()
    assert not found["relative_frobenius"].any()
    assert np.allclose(found["cosine"], 1, atol=1e-5)
    nothing = of_streams(np.zeros((2, n, 50), dtype=np.float32))
    assert not any(value.any() for value in nothing.values())


def test_means_and_spreads_are_over_inputs_whatever_their_batches() -> None:
    loaded = small("qwen2")
    whole = random_tokens(loaded, 6, 7)
    parts = replace(whole, batches=(whole.batches[0][:4], whole.batches[0][4:]))
    one, two = curves(loaded, whole, PAPER), curves(loaded, parts, PAPER)
    for left, right in zip(one.curves, two.curves, strict=True):
        for name in MEASURES:
            assert left.values[name].shape == (4, 6)
            assert np.allclose(left.values[name], right.values[name], rtol=1e-4, atol=1e-6)
            assert np.array_equal(left.mean(name), left.values[name].mean(1))
            assert np.array_equal(left.spread(name), left.values[name].std(1))


def test_inputs_of_several_lengths_are_measured_together() -> None:
    loaded = small("bert")
    mixed = Inputs((tokens(2, 5), tokens(3, 9)), "mixed")
    found = curves(loaded, mixed, [ALONE], ranks=True)
    apart = [curves(loaded, Inputs((batch,), "one"), [ALONE]) for batch in mixed.batches]
    joined = np.concatenate([part[ALONE].values["relative"] for part in apart], axis=1)
    assert np.array_equal(found[ALONE].values["relative"], joined)
    assert found[ALONE].spectrum.shape == (4, 9)


def test_streams_that_do_not_fit_together_are_run_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = small("llama")
    inputs = Inputs((tokens(2, 5), tokens(3, 9), tokens(1, 9, 4)), "three")
    whole = curves(loaded, inputs, PAPER)
    monkeypatch.setattr(module, "AT_ONCE", 1)
    for left, right in zip(whole.curves, curves(loaded, inputs, PAPER).curves, strict=True):
        for name in MEASURES:
            assert np.array_equal(left.values[name], right.values[name])


# --- what attention does ---------------------------------------------------------------------


@pytest.mark.parametrize("family", POST)
@pytest.mark.parametrize("seed", [0, 1])
def test_without_skips_tokens_become_alike_and_with_skips_they_do_not(
    family: str, seed: int
) -> None:
    loaded = deep(family, seed=seed)
    found = curves(loaded, random_tokens(loaded, 4, 16, seed), ALL)
    for curve in found.curves:
        means = curve.mean()
        if curve.variant.skip:
            assert means.min() > 0.2
        else:
            assert curve.below(1e-3) is not None
            assert means[-1] < 1e-5
            assert curve.mean("cosine")[-1] > 1 - 1e-5


@pytest.mark.parametrize(
    "family", [family for family in CAUSAL if family not in ("deepseek_v3", "gpt_oss")]
)
def test_behind_a_causal_mask_it_takes_longer(family: str) -> None:
    """Where all tokens are seen, a few layers suffice; here residuals fall layer by layer."""
    loaded = deep(family, layers=12)
    found = curves(loaded, random_tokens(loaded, 4, 16), [ALONE, FULL])
    means = found[ALONE].mean()
    assert found[ALONE].below(1e-3) in ((None, 12) if family == "opt" else (None,))
    assert means[-1] < means[6] < means[0]
    assert means[-1] < found[FULL].mean()[-1]


def test_ranks_fall_to_one() -> None:
    loaded = deep("bert")
    curve = curves(loaded, random_tokens(loaded, 2, 9), [ALONE], ranks=True)[ALONE]
    assert (curve.values["rank"][0] == 9).all()
    assert (curve.values["rank"][-1] == 1).all()
    assert np.allclose(curve.values["stable_rank"][-1], 1)


def test_equal_tokens_stay_equal() -> None:
    """Of one token, many times: turned queries and keys change nothing where values are equal."""
    loaded = load("transformer/d=8/heads=2/norm=rms/mlp=gelu/ff=9/pos=rope/vocab=20/t=8/layers=3")
    inputs = Inputs((np.full((2, 8), 5),), "one token")
    for curve in curves(loaded, inputs, ALL).curves:
        assert curve.mean().max() < 1e-6


# --- numbers that are lost -------------------------------------------------------------------


def test_overflow_is_seen_and_written_as_null() -> None:
    loaded = small("gpt2", (("W_down", 1e15),))
    bare = Variant(norm=False)
    found = curves(loaded, random_tokens(loaded, 2, 6), [bare, FULL], ranks=True)
    curve = found[bare]
    assert curve.lost == 3
    assert curve.below(1e9) == 0
    assert curve.below(1e-3) is None
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["curves"][0]["relative"]["mean"][3] is None
    assert document["curves"][0]["lost"] == 3


def test_streams_that_vanish_do_not_count_as_collapsed() -> None:
    loaded = small("gpt2", (("W_O", 1e-35), ("b_O", 1e-35)))
    bare = Variant(skip=False, mlp=False, norm=False)
    curve = curves(loaded, random_tokens(loaded, 2, 6), [bare])[bare]
    assert curve.lost == 1
    assert curve.below(1e-3) is None


# --- documents, progress, cost ---------------------------------------------------------------


def test_documents_say_what_was_measured_and_how() -> None:
    loaded = small("llama")
    found = curves(loaded, random_tokens(loaded, 3, 5, seed=8), PAPER)
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["inputs"] == {"kind": "random tokens", "count": 3, "length": 5, "seed": 8}
    assert [curve["variant"] for curve in document["curves"]] == [str(each) for each in PAPER]
    assert document["curves"][0]["skip"] is False
    for curve in document["curves"]:
        for name in MEASURES:
            assert len(curve[name]["mean"]) == found.layers + 1 == 4
            assert curve[name]["lowest"][1] <= curve[name]["mean"][1] <= curve[name]["highest"][1]


def test_progress_is_told_and_ends() -> None:
    told: list[tuple[str, int, int]] = []
    loaded = small("bert")
    inputs = Inputs((tokens(1), tokens(2)), "two")
    curves(loaded, inputs, PAPER, progress=lambda *now: told.append(now))
    total = 2 * 4 * 4  # batches, variants, layers and what is before them
    assert [done for _, done, _ in told] == list(range(total + 1))
    assert {most for _, _, most in told} == {total}


def test_the_cost_of_measuring_can_be_measured() -> None:
    loaded = small("bert")
    found = cost(loaded, random_tokens(loaded, 2, 8), repeats=2)
    assert found.plain > 0
    assert found.ratio == found.measured / found.plain


def test_numbers_that_are_not_finite_are_told_quietly() -> None:
    values = np.array([[1.0, 2.0], [np.inf, 1.0], [np.inf, np.nan]])
    curve = Curve(FULL, {"relative": values, "size": values})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = curve.document()
    assert found["relative"]["mean"] == [1.5, None, None]
    assert found["relative"]["spread"] == [0.5, None, None]
    assert found["lost"] == 1


def test_what_cancels_is_measured_in_double_precision() -> None:
    """Where the gap is removed, roundings of single precision grow."""
    loaded = small("bert")
    cuts = [variant(name) for name in ("attention:gapless", "attention", "attention+mlp:gapless")]
    inputs = random_tokens(loaded, 2, 9, 0)
    found = curves(loaded, inputs, cuts)
    assert [curve.variant for curve in found.curves] == cuts
    every = streams(loaded, inputs.batches[0], cuts)
    for curve, layers in zip(found.curves, every, strict=True):
        right = np.stack([of_streams(X)["relative"] for X in layers])
        close = 1e-12 if curve.variant.gapless else 1e-5
        apart = np.abs(curve.values["relative"] / right - 1)[right > 1e-2].max()
        assert apart < close
        assert curve.variant.gapless or apart > 1e-10
