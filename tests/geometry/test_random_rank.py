"""The rank at independent random points: what it says, and what it must never be called."""

import json
import random
from itertools import islice

import numpy as np
import pytest
from bench.random_specs import random_core, random_design, random_stack

from segre import dimension
from segre.architectures import Architecture
from segre.errors import SegreError
from segre.finding import Finding
from segre.geometry import random_rank
from segre.geometry.dimension import Proof, prove
from segre.geometry.random_rank import PRIMES, bounds, sampled
from segre.models import architecture
from segre.report.blocks import shown_in
from segre.report.dimensions import known_by, status_in_words
from segre.report.text import text_of
from segre.report.views import blocks_of, tiles_of
from support.mixed_stacks import random_mixed_stack
from support.polynomials import random_polynomial

GAP = "lightning/d=3,3/a=3/heads=3/dv=2/t=4"
LIKELY = "transformer/d=3/head=1/mlp=relu/ff=1/vocab=3/tied=true/residual=false/t=1"


def test_the_primes_that_are_drawn_from_are_counted() -> None:
    sieve = np.ones(2**23, dtype=bool)
    for n in range(2, 2897):
        if sieve[n]:
            sieve[n * n :: n] = False
    primes = np.flatnonzero(sieve)
    primes = primes[(primes > 2**22) & (primes % 4 == 3)]
    assert len(primes) == PRIMES
    spec, known = architecture(GAP), set(primes.tolist())
    drawn = [random_rank._drawn(spec, 0, n, use)[1] for n in range(60) for use in ("a", "b")]
    assert set(drawn) <= known
    assert len(set(drawn)) > 100


def test_the_same_spec_and_seed_give_the_same_points() -> None:
    spec = architecture(GAP)
    points = {
        (text, seed, n): random_rank._drawn(architecture(text), seed, n, "first prime")
        for text in (GAP, f"{GAP}0")
        for seed in (0, 1)
        for n in range(4)
    }
    assert len(set(points.values())) == len(points)
    assert points[GAP, 1, 2] == random_rank._drawn(spec, 1, 2, "first prime")
    assert dimension(GAP, seed=3) == dimension(GAP, seed=3)
    assert dimension(GAP, seed=3).document()["random"]["seed"] == 3


def _polynomial(seed: int) -> Architecture:
    return random_polynomial(random.Random(seed))


def _smooth(count: int, seed: int) -> list[Architecture]:
    """Random designs of every kind, inputs any matrices, without roots and branches."""
    found: list[Architecture] = []
    chance = random.Random(seed)
    while len(found) < count:
        n = chance.randrange(10**6)
        makers = (random_stack, random_mixed_stack, _polynomial, random_core, random_design)
        spec = makers[len(found) % len(makers)](n)
        rooted = spec.salted and getattr(spec, "norm", "none") != "none"
        if spec.discrete or spec.piecewise or rooted or spec.parameters > 150 or spec.t > 4:
            continue
        found.append(spec)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_where_the_dimension_is_proved_random_points_agree(seed: int) -> None:
    """Never above, and equal; and what is one smaller is refuted by the first few points."""
    agreed = 0
    for spec in _smooth(20, seed):
        try:
            proof = prove(spec, seed)
        except SegreError:
            continue
        if not proof.met or proof.lower.value == 0:
            continue
        assert sampled(spec, proof.lower.value, proof.minor.rows) is not None, str(spec)
        assert sampled(spec, proof.lower.value - 1, proof.minor.rows) is None, str(spec)
        agreed += 1
    assert agreed >= 10


@pytest.mark.parametrize("seed", range(0, 24, 2))
def test_norms_tokens_and_branches_are_never_below_what_is_proved(seed: int) -> None:
    spec = random_core(seed)
    proof = prove(spec)
    for _, inputs in random_rank._kinds(spec, proof.minor.rows) if not spec.piecewise else ():
        ranks = [random_rank._run(spec, inputs, 0, n).rank for n in range(2)]
        assert max(ranks) >= proof.lower.value
    if proof.met and proof.lower.value:
        assert sampled(spec, proof.lower.value - 1, proof.minor.rows[:-1]) is None


def test_runs_with_the_same_point_see_the_same_arguments() -> None:
    spec = architecture("softmax/d=1,1,1/a=1/t=3")
    proof = prove(spec)
    ((_, inputs),) = random_rank._kinds(spec, proof.minor.rows)
    runs = [random_rank._run(spec, inputs, 0, n) for n in range(4)]
    assert {run.rank for run in runs} == {proof.lower.value}
    assert len({run.pattern for run in runs}) == 1  # scores of parallel tokens are symmetric
    wide = architecture("softmax/d=2,2,2/a=1/t=3")
    ((_, inputs),) = random_rank._kinds(wide, prove(wide).minor.rows)
    assert random_rank._run(wide, inputs, 0, 0).pattern != runs[0].pattern


def test_more_points_have_a_smaller_error() -> None:
    found = bounds(architecture(GAP), 45, 6)
    errors = [found.error(k) for k in range(1, 20)]
    assert errors == sorted(errors, reverse=True)
    assert found.points is not None
    assert found.error(found.points) < -60 <= found.error(found.points - 1)
    assert bounds(architecture(GAP), 450, 6).error(6) > found.error(6)
    huge = bounds(architecture("softmax/d=4/layers=40/a=2/heads=9/t=16"), 3000, 99)
    assert huge.points is None  # then it is likely, at most


def test_a_known_gap_is_closed_with_certainty() -> None:
    found = dimension(GAP)
    assert (found.lower, found.number) == (45, 45)
    if found.value is None:  # no symmetry explains it
        assert found.status == found.label == "certain"
        assert found.unexplained == found.upper - 45
        told = found.document()
        assert told["random"]["log2_error"] < -60
        assert told["random"]["points"] >= 6
        assert told["random"]["degree"] > 0
        assert told["random"]["log2_height"] > 0
    assert dimension(GAP, "exact").number == found.value


@pytest.mark.parametrize(
    ("text", "rank"),
    [  # norms that give signs: of two numbers, of a latent of width 1, of embeddings of width 1
        (
            "transformer/d=2/heads=3/head=2/ff=1/mlp=reglu/norm=layer/pos=learned/causal=true/t=2",
            10,
        ),
        ("transformer/d=3/heads=2/head=3/norm=rms/place=sandwich/qrank=1/kvrank=1/t=2", None),
        ("transformer/d=2/ff=2/mlp=gelu/norm=layer/bias=mlp/residual=false/t=2", None),
        # units that are all off before a norm: no value at most points
        ("transformer/d=5/head=2/dv=1/ff=2/mlp=relu/norm=layer/place=sandwich/final=true/t=2", 25),
    ],
)
def test_signs_and_inputs_without_a_value(text: str, rank: int | None) -> None:
    """Free roots of squares have too large a rank; regions with the signs have the true one."""
    found = dimension(text, "random")
    assert found.number is not None
    assert found.status in ("likely", "proved")
    if rank is not None:
        assert found.number == rank


def _said(found: Finding) -> list[str]:
    """What is said of the dimension, wherever something is said."""
    line = next(one for one in text_of(found).splitlines() if one.startswith("dimension"))
    tile, *_ = tiles_of(shown_in("card", blocks_of(found)))
    words = [line, status_in_words(found), known_by(found), found.proof(), found.label]
    return [*words, found.status, tile.status, tile.remark, str(found.document()["proved_by"])]


@pytest.mark.parametrize("text", [GAP, LIKELY])
def test_what_is_not_proved_is_nowhere_called_so(text: str) -> None:
    found = dimension(text, symmetries=True)
    if found.value is not None:
        pytest.skip("proved by now")
    assert found.status in ("certain", "likely")
    assert not any("proved" in words for words in _said(found))
    told = json.loads(json.dumps(found.document()))
    assert told["status"] == told["label"] == found.status
    assert told["dimension"] == found.number == found.lower < found.upper
    assert (told["random"]["log2_error"] is None) == (found.status == "likely")
    proved = dimension("softmax/d=3,3/a=1/t=2")
    assert "random" not in proved.document()
    assert not any("certain" in words or "likely" in words for words in _said(proved))


def test_a_proof_is_never_replaced_by_points() -> None:
    for spec in islice((random_stack(n) for n in range(100)), 12):
        found = dimension(spec)
        proof = prove(spec)
        assert isinstance(proof, Proof)
        if proof.met:
            assert (found.status, found.sample) == ("proved", None)
        elif found.sample is not None:
            assert found.sample.rank == proof.lower.value
            assert found.value is None
