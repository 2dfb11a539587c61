"""The theorems against exact ranks, against the counts of symmetries, and at their edges."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from segre.errors import UnsupportedError
from segre.geometry.at_any_size import formulas
from segre.geometry.closed_form import closed_form
from segre.geometry.dimension import dimension
from segre.models import architecture
from segre.spec import Network
from segre.sweep.builtin import builtin_names, plan_of
from segre.sweep.draw import architectures
from segre.theorems import THEOREMS, Theorem, alike, apply, nearest
from segre.transformer.choices import DEFAULTS, KEYS
from segre.transformer.spec import Transformer
from support.architectures import random_stacks, random_transformers

PLANS = [
    name
    for name in builtin_names()
    if name.startswith("theorem-") and name != "theorem-outside"  # hypotheses fail there
]
# The dimensions that were derived independently of this code.
PRESETS = {
    "gpt2": ("D2", 123_092_456),
    "gpt2-xl": ("D2", 1_546_395_680),
    "bert-base-uncased": ("F1", 108_182_048),
    "bert-large-uncased": ("F1", 331_628_808),
    "minilm-l6-v2": ("F2", 22_496_698),
    "llama-2-7b": ("C", 6_712_498_176),
    "llama-3-8b": ("C", 8_016_918_528),
    "llama-3-70b": ("C", 70_505_967_616),
    "llama-3.2-1b": ("C", 1_235_085_312),
    "smollm2-135m": ("C", 134_059_968),
    "mistral-7b-v0.1": ("C", 7_228_389_376),
    "mistral-7b-v0.3": ("C", 7_234_680_832),
    "qwen2-0.5b": ("D1", 493_673_344),
    "qwen2-7b": ("D1", 7_606_608_128),
    "qwen3-0.6b": ("C", 592_234_752),
    "qwen3-8b": ("C", 8_176_882_432),
    "gemma-2-2b": ("E", 2_607_140_096),
    "gemma-2-9b": ("E", 9_218_696_704),
}


@pytest.mark.parametrize("name", PRESETS)
def test_the_dimensions_of_presets_are_theorems(name: str) -> None:
    found = dimension(name)
    assert found.status == "proved"
    assert found.theorem is not None
    assert (found.theorem["name"], found.value) == PRESETS[name]
    assert found.document()["evidence"]["lower"]["theorem"]["holds"]


@cache
def drawn(name: str) -> list[Network | Transformer]:
    """The first architectures of a plan."""
    return [one.spec for one in islice(architectures(plan_of(name)), 60)]


@pytest.mark.parametrize("name", PLANS)
def test_a_theorem_says_what_the_exact_rank_says(name: str) -> None:
    """All of a plan are compared by `segre sweep run`, the smallest ones here."""
    specs = sorted(drawn(name), key=lambda spec: spec.parameters)
    for spec in (
        specs if plan_of(name).sort.layered else specs[: 6 if name == "theorem-inputs" else 2]
    ):
        applied = apply(spec)
        assert applied is not None
        assert applied.holds
        exact = dimension(spec, "exact")
        assert exact.theorem is None
        assert exact.upper is not None
        assert exact.lower is not None
        assert exact.lower <= (applied.dimension or 0) <= exact.upper, spec
        if exact.value is not None:
            assert exact.value == applied.dimension, spec


def test_every_theorem_is_swept() -> None:
    swept = {apply(spec).theorem.name for name in PLANS for spec in drawn(name)}  # type: ignore[union-attr]
    assert swept == {theorem.name for theorem in THEOREMS}


@pytest.mark.parametrize("name", [name for name in PLANS if not plan_of(name).sort.layered])
def test_a_theorem_counts_the_symmetries_that_the_pieces_count(name: str) -> None:
    """The same sizes, grown at random: the hypotheses hold or not, the counts are the same."""
    rng = random.Random(name)
    for spec in drawn(name):
        assert isinstance(spec, Transformer)
        larger = {
            "layers": rng.randint(2, 9),
            "d": spec.d + rng.randint(0, 20),
            "ff": spec.ff + rng.randint(0, 30),
            "vocab": spec.vocab and spec.vocab + rng.randint(60, 500),
        }
        grown = replace(spec, **larger)
        applied = apply(grown)
        assert applied is not None
        found = formulas(grown).symmetries
        assert sum(one.dimension for one in found) == applied.redundant, grown


def test_the_count_of_theorem_a_is_the_closed_form() -> None:
    for spec in random_stacks(3, 400):
        applied = apply(spec)
        assert applied is not None
        if applied.holds:
            assert applied.dimension == closed_form(spec).value, spec
        else:
            assert applied.failing


def test_no_two_theorems_cover_one_design() -> None:
    specs: list[Network | Transformer] = [*random_stacks(5, 100), *random_transformers(5, 300)]
    specs += [spec for name in PLANS for spec in drawn(name)]
    for spec in specs:
        covering = [theorem.name for theorem in alike(spec) if theorem.covers(spec)]
        assert len(covering) <= 1
        if not covering:
            assert nearest(spec)[1]


# Values that a theorem about some design covers nowhere, or not together with the rest.
OTHERWISE = {
    "attn": "lightning",
    "sinks": True,
    "gate": "element",
    "sharedgate": True,
    "feature": "silu",
    "mixnorm": True,
    "residual": False,
    "parallel": True,
    "share": True,
    "gain": False,
    "mlp": "relu",
    "qknorm": "all",
    "outbias": True,
    "rescale": "dynamic:2:64",
    "final": False,
    "causal": False,
    "embnorm": True,
    "norm": "layer",
    "bias": "attn",
}


@pytest.mark.parametrize("key", OTHERWISE)
def test_a_design_choice_that_is_not_named_is_not_covered(key: str) -> None:
    net = architecture("qwen3-0.6b")
    assert isinstance(net, Transformer)
    other = replace(net, **{key: OTHERWISE[key]})
    assert apply(other) is None or apply(other).theorem.name != "C"  # type: ignore[union-attr]


def test_a_new_key_would_be_covered_by_no_theorem() -> None:
    """Every key is a size, is named by some theorem, or must have its default."""
    from segre.theorems.design import SIZES

    assert set(SIZES) <= set(KEYS)
    net = architecture("llama-3-8b")
    for key in set(KEYS) - set(SIZES):
        if getattr(net, key) != DEFAULTS[key] or isinstance(DEFAULTS[key], tuple):
            continue
        odd = replace(net)  # a value that nobody has named
        object.__setattr__(odd, key, object())
        covering = [theorem.name for theorem in alike(odd) if _covers(theorem, odd)]
        assert not covering or key in {"window", "tied", "embscale", "rescale"}, key


def _covers(theorem: Theorem, spec: Transformer) -> bool:
    try:
        return theorem.covers(spec)
    except AttributeError:  # a value whose kind is asked for
        return False


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"vocab": 2 * 4096 + 1}, "C.V"),
        ({"t": 128}, "C.t"),
        ({"eps": Fraction(0)}, "C.eps"),
        ({"heads": 8, "head": 128, "dv": 128}, "C.heads"),
        ({"rotary": 64}, "C.rope"),
        ({"rescale": "llama3:8:1:4:20"}, "C.angle"),
        ({"head": 8192, "rotary": 8192}, "C.a"),
        ({"dv": 8192}, "C.v"),
        ({"t": 130}, "C.contexts"),
    ],
)
def test_a_hypothesis_that_fails_is_named(change: dict[str, object], name: str) -> None:
    net = architecture("llama-3-8b")
    assert isinstance(net, Transformer)
    applied = apply(replace(net, **change))
    assert applied is not None
    assert not applied.holds
    assert applied.dimension is None
    assert name in [one.name for one in applied.failing]
    assert "short" in applied.words
    with pytest.raises(ValueError, match="does not apply"):
        _ = applied.bound


def test_windows_shorten_the_sequences_that_are_used() -> None:
    for window, name in ((4096, None), (100, "C.t")):
        net = replace(architecture("mistral-7b-v0.1"), window=(window,))  # type: ignore[type-var]
        applied = apply(net)
        assert applied is not None
        assert applied.holds == (name is None)
        assert name is None or name in [one.name for one in applied.failing]


def test_what_no_theorem_gives_says_why() -> None:
    found = dimension("deepseek-v3")
    assert found.value is None
    assert found.status == "upper-bound"
    assert "no theorem covers this design" in found.notes[0]
    with pytest.raises(UnsupportedError, match="no theorem covers this design"):
        dimension("deepseek-v3", "theorem")
    with pytest.raises(UnsupportedError, match="does not apply: A1"):
        dimension("softmax/d=4,4/a=2/t=1", "theorem")


def test_large_stacks_are_proved_at_once() -> None:
    assert dimension("softmax/d=100,100/a=2/t=3").value == 10_396
    widths = ",".join(["4096"] * 33)
    found = dimension(f"softmax/d={widths}/a=128/t=2048")
    assert found.value == 32 * 128 * (2 * 4096 - 128) + 4096**2
    assert dimension(f"lightning/d={widths}/a=128/t=2048").value == found.value - 32


def test_exact_never_uses_a_theorem() -> None:
    for method in ("exact", "balls"):
        found = dimension("softmax/d=3,3/a=2/t=2", method)  # type: ignore[arg-type]
        assert found.theorem is None
        assert found.value is not None


def test_every_theorem_has_its_section_and_its_hypotheses_in_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "theorems.md").read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9]+", "-", title.lower().replace("'", "")) for title in titles}
    for theorem in THEOREMS:
        assert theorem.page.partition("#")[2] in {anchor.strip("-") for anchor in anchors}
    specs = [spec for name in PLANS for spec in drawn(name)]
    names = {one.name for spec in specs for one in apply(spec).hypotheses}  # type: ignore[union-attr]
    spelled_out = {"B.rope", "B.eps"}  # what a design says
    for name in names - spelled_out:
        kind = name.partition(".")[2]
        if kind not in {"rope", "eps", "positions", "cap", "logitcap", "t"}:
            assert f"`{name.replace('F2.', 'F1.')}`" in page, name


@pytest.mark.parametrize("name", [name for name in PLANS if not plan_of(name).sort.layered])
def test_a_hypothesis_compares_counts(name: str) -> None:
    """No side of a condition is below zero, also where sizes are far too small for it."""
    rng = random.Random(name)
    for spec in drawn(name):
        assert isinstance(spec, Transformer)
        vocab = spec.vocab and rng.randint(1, 2 * spec.vocab)
        applied = apply(replace(spec, vocab=vocab, t=rng.randint(1, 40)))
        for one in applied.hypotheses if applied is not None else ():
            assert min(one.left, one.right) >= 0, one
            assert one.holds == (one.left >= one.right + (one.relation == ">"))


def test_one_name_is_one_thing() -> None:
    """Ids of conditions are no names of theorems, occur once, and are printed as they are."""
    page = (Path(__file__).parents[2] / "docs" / "theorems.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S+) \| .* \| ((?:`[^`]+`(?:, )?)+) \|$", page, re.MULTILINE)
    ids = [name for name, _ in rows]
    assert len(ids) > 40
    assert len(set(ids)) == len(ids)
    assert not set(ids) & {theorem.name for theorem in THEOREMS}
    printed = [(own, name) for own, names in rows for name in re.findall("`([^`]+)`", names)]
    assert len({name for _, name in printed}) == len(printed)
    for own, name in printed:
        assert own == name or name not in ids, f"{own} is printed as {name}, which is another one"
