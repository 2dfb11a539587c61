"""Counts of symmetries: a bound is shown as one only where it is one."""

from contextlib import suppress

import pytest
from bench.faults.counts import rank_of
from bench.random_specs import random_core, random_design, random_transformer

from segre.analysis.run import analyze
from segre.errors import UnluckyError, UnsupportedError
from segre.geometry.at_any_size import at_any_size, counted, formulas
from segre.geometry.dimension import dimension
from segre.geometry.estimate import Spectrum, spectrum
from segre.geometry.point import Point
from segre.geometry.rank import symmetry_rank
from segre.models import architecture
from segre.models.registry import PRESETS
from segre.report.dimensions import status_in_words, value_in_words
from segre.report.parts import tiles
from segre.transformer.choices import KEYS
from segre.transformer.spec import Transformer

# Exact ranks that independent code found; formulas alone were below them.
RANKS = {
    "transformer/d=3/norm=layer/t=17": 10,
    "gpt2/d=4/heads=1/layers=2/ff=2/vocab=9/eps=0.1/t=17": 173,
    "transformer/d=4/head=2/ff=1/mlp=geglu-tanh/pos=rope/residual=false/qknorm=true/t=17": 28,
    "transformer/d=3/head=2/layers=2/t=17/mlp=gelu/ff=2/causal=true/residual=false/kvrank=2": 30,
    "transformer/d=4/head=2/t=17/vocab=4/mlp=gelu/ff=2/bias=attn/residual=false/output=logits"
    "/types=1/embed=3": 26,
    "transformer/d=3/heads=2/head=3/dv=1/t=2/mlp=silu/ff=4/norm=layer/place=sandwich/eps=1/10": 36,
}


@pytest.mark.parametrize("spec", RANKS)
def test_counts_are_not_below_ranks_that_others_computed(spec: str) -> None:
    upper = dimension(spec, "count").upper
    assert upper is not None
    assert upper >= RANKS[spec]


@pytest.mark.parametrize("draw", [random_design, random_core, random_transformer])
def test_formulas_shown_as_bounds_do_not_exceed_the_rank_of_the_generators(draw) -> None:
    shown = 0
    for seed in range(20_000, 20_600):
        spec = draw(seed)
        try:
            upper = formulas(spec).upper
        except UnsupportedError:
            continue
        if upper is not None:
            shown += 1
            rank = symmetry_rank(Point.draw(spec, seed), checked=False).rank
            assert upper >= spec.parameters - rank, spec
    assert shown > 20


def test_random_designs_have_every_key_with_several_values() -> None:
    drawn = [random_design(seed) for seed in range(2_000)]
    for key in KEYS:
        assert len({getattr(spec, key) for spec in drawn}) > 1, key


def test_a_symmetry_rank_without_a_jacobian_is_the_same() -> None:
    for seed in range(12):
        point = Point.draw(random_core(seed), seed)
        found = symmetry_rank(point, checked=False)
        assert found.pieces == symmetry_rank(point).pieces
        assert "kernel" not in found.bound(point.spec.parameters).evidence.statement


def test_a_report_says_about_where_a_count_is_no_bound() -> None:
    found = analyze("albert-base-v2", only=["dimension", "redundancy"])
    size, redundancy = found["dimension"], found["redundancy"]
    assert size.status == redundancy.status == "estimated"
    assert "is about 11,111,339 of" in size.lead
    assert "not a bound" in size.lead
    assert redundancy.lead.startswith("About 110,341 of")
    assert [tile.value for tile in tiles(found)][1:3] == ["about 11,111,339", "about 110,341"]


def test_of_the_presets_eight_have_counts_that_are_not_bounds() -> None:
    about = []
    for name in PRESETS:
        spec = architecture(name)
        assert isinstance(spec, Transformer)
        found = at_any_size(spec, counted)
        if found.upper is None:
            about.append(name)
            assert value_in_words(found, str) == f"about {found.estimate}"
            assert status_in_words(found) == "a count by formulas, not a bound"
        elif found.value is None:
            assert value_in_words(found, str) == f"at most {found.upper}"
    assert about == [
        *("opt-350m", "electra-small-generator", "electra-base-generator"),
        *("electra-large-generator", "electra-small-discriminator", "albert-base-v2"),
        *("minimax-text-01", "vit-large-patch16-224"),
    ]


# LayerNorms of width 2 give two vectors: floating point sees a rank where there is none.
CONSTANT = (
    "transformer/d=2/heads=2/kv=1/head=2/ff=2/mlp=reglu/norm=layer/place=post/gain=false/bias=qkv"
    "/t=2",
    "transformer/d=2/layers=2/ff=1/mlp=geglu-quick/norm=layer/place=post/gain=false/pos=learned"
    "/sinks=true/kvrank=1/experts=3/active=1/shared=2/eff=1/router=softmax-raw/t=2",
    "transformer/d=2/layers=2/heads=2/head=2/dv=1/ff=3/mlp=gelu/norm=layer/place=sandwich"
    "/gain=false/causal=true/window=2/vocab=4/sinks=true/qrank=2/kvrank=2/embnorm=true"
    "/output=hidden/t=2",
    "transformer/d=2/layers=3/ff=2/mlp=relu/norm=layer/place=post/gain=false/layout=interleaved"
    "/sinks=true/scale=2.5/qrank=2/kvrank=1/t=1",
)


def finite(spec: Transformer, seed: int) -> Spectrum | None:
    """The spectrum at a seed; None where rounding gives 0 / 0, which depends on the last digits."""
    with suppress(UnluckyError):
        return spectrum(spec, seed=seed)
    return None


@pytest.mark.parametrize("text", CONSTANT)
def test_what_only_rounds_is_constant(text: str) -> None:
    spec = architecture(text)
    assert isinstance(spec, Transformer)
    found = next(filter(None, (finite(spec, seed) for seed in range(20))))
    assert found.rank > 0
    assert found.values[0] < 1e-12
    assert rank_of(spec) is None
    answer = dimension(spec)
    assert (answer.lower, answer.number) == (0, 0)
    assert answer.status in ("proved", "likely")
