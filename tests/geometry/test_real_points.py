"""Lower bounds in balls: at several points, with lively units, as large for every seed."""

import itertools
from functools import cache

import numpy as np
import pytest
from bench.random_specs import random_transformer

from segre.certificate import certify
from segre.fields.ball import Ball
from segre.fields.formal import Formal
from segre.geometry.balls import bordered
from segre.geometry.dimension import dimension
from segre.geometry.independence import only_in_balls
from segre.geometry.point import Point
from segre.geometry.real_point import points_to_try
from segre.kernel import verify
from segre.models import architecture
from segre.symmetry.all import pieces
from segre.symmetry.piece import ModularWeights
from segre.transformer.choices import PIECEWISE
from segre.transformer.spec import Transformer
from support.draws import draws

RELU = [
    f"transformer/d={d}/heads=2/head=1/mlp={mlp}/ff={ff}{rest}/t=2"
    for d, ff in ((2, 2), (3, 4))
    for mlp in ("relu", "relu2", "reglu")
    for rest in ("/norm=rms", "/bias=all", "/norm=layer/bias=all/vocab=5/causal=true")
]

RANDOM = len(draws(14))

# of these, seeds gave different ranks
SEEN = [
    "transformer/d=2/head=3/dv=2/ff=1/mlp=relu/norm=rms/place=post/eps=1e-05/bias=all/causal=true"
    "/vocab=4/logitcap=20/embscale=true/transform=true/outbias=true/t=3",
    "transformer/d=3/head=2/dv=1/ff=2/mlp=reglu/norm=layer/place=sandwich/gain=false/vocab=4"
    "/final=false/qrank=2/kvrank=2/embed=2/output=hidden/t=2",
    "transformer/d=3/layers=3/head=2/dv=5/ff=2/mlp=relu/norm=layer/eps=1e-05/residual=false"
    "/final=true/scale=2.5/qrank=2/kvrank=2/share=true/t=2",
]


@pytest.mark.parametrize("spec", RELU)
def test_the_rank_is_the_same_for_every_seed(spec: str) -> None:
    """Dead units would make it smaller, by as many dimensions as they have weights."""
    assert len({dimension(spec, seed=seed).lower for seed in range(3)}) == 1


@cache
def random_relu() -> list[Transformer]:
    """Small random transformers with units that can die: one in a hundred, so not at import."""
    every = (random_transformer(seed) for seed in itertools.count())
    small = (spec for spec in every if spec.mlp in PIECEWISE and spec.parameters <= 50)
    return list(itertools.islice(small, RANDOM))


@pytest.mark.slow
@pytest.mark.parametrize("which", [*range(RANDOM), *SEEN], ids=str)
def test_the_rank_of_random_ones_is_the_same_for_every_seed(which: int | str) -> None:
    spec = random_relu()[which] if isinstance(which, int) else which
    assert len({dimension(spec, "exact", seed=seed).lower for seed in range(2)}) == 1, spec


def test_a_minor_is_bordered_as_far_as_it_goes() -> None:
    """Of random matrices of known rank, scaled so that floats see a part of them only."""
    chance = np.random.default_rng(5)
    for _ in range(30):
        height, width = chance.integers(1, 9, 2)
        rank = int(chance.integers(0, min(height, width) + 1))
        left, right = (
            chance.integers(-9, 10, (height, rank)),
            chance.integers(-9, 10, (rank, width)),
        )
        shrink = 10.0 ** -chance.integers(0, 30, height)
        with Ball(256).precision():
            J = Ball(256).constant(left @ right) * Ball(256).constant(shrink[:, None])
            rows, columns = bordered(J, [], [])
            true = np.linalg.matrix_rank(left @ right)
            assert len(rows) == len(columns) == true
            assert not true or Ball(256).regular(J[np.ix_(rows, columns)])
            some = true // 2
            if (
                some
                and np.linalg.matrix_rank((left @ right)[np.ix_(rows[:some], columns[:some])])
                == some
            ):
                more = bordered(J, rows[:some], columns[:some])
                assert len(more[0]) == true
                assert {*rows[:some]} <= {*more[0]}


def test_units_are_on_for_some_tokens_and_off_for_others() -> None:
    spec = architecture("transformer/d=2/norm=layer/bias=all/mlp=relu/ff=6/t=2")
    plain = [_lively(spec, seed) for seed in range(12)]
    chosen = [_lively(spec, points_to_try(spec, seed, 1)[0]) for seed in range(12)]
    assert all(chosen)
    assert not all(plain)


def _lively(spec, seed: int) -> bool:
    from segre.geometry.real_point import _scores

    return bool(_scores(spec, [seed])[0] == 1)


def test_without_units_that_die_any_points_will_do() -> None:
    spec = architecture("transformer/d=2/mlp=gelu/ff=2/t=2")
    assert not spec.piecewise
    assert points_to_try(spec, 5, 2)[0] == 5


@pytest.mark.parametrize(
    "spec",
    [
        "transformer/d=2/norm=layer/place=sandwich/gain=false/attn=lightning/t=2",  # rank 0
        "transformer/d=4/heads=4/head=1/norm=rms/place=post/pos=learned/causal=true/qknorm=true/t=2",
        "transformer/d=3/norm=rms/attn=lightning/t=3",
        "transformer/d=3/norm=rms/place=sandwich/attn=lightning/layers=2/t=2",
        "transformer/d=2/layers=2/mlp=geglu/ff=1/norm=layer/place=sandwich/qknorm=true/t=2",
    ],
)
def test_what_has_few_roots_mod_p_is_certified_all_the_same(spec: str) -> None:
    found = dimension(spec)
    document = certify(spec)
    upper = found.upper if found.number is None else found.number  # proved, certain or likely
    certain = document["claim"]["status"] == "certain"
    assert document["claim"]["lower"] == found.lower
    assert document["claim"]["upper"] == (upper if certain else found.upper)
    assert verify(document).valid


def test_symmetries_hold_with_drawn_roots() -> None:
    """Of a root they ask for its derivative only: the check needs no root mod p."""
    rooted = 0
    for seed in range(60):
        spec = random_transformer(seed)
        point = Point.draw(spec, seed)
        soft = point.jacobian_rows(point.inputs_with_free_roots).T
        weights = ModularWeights(point.field, spec, point.weights)
        for piece in pieces(spec):
            rows = point.hard_rows.T if piece.hard else soft
            assert not point.field.matmul(point.field.reduce(piece.build(weights)), rows).any()
        rooted += only_in_balls(spec) is None
    assert 5 < rooted < 55


def test_a_wrong_symmetry_is_noticed_with_drawn_roots() -> None:
    """Scaling the argument of a norm with eps is no symmetry, and drawn roots see that."""
    spec = architecture("transformer/d=3/norm=rms/place=sandwich/mlp=relu/ff=2/t=2")
    other = architecture("transformer/d=3/norm=rms/place=sandwich/mlp=relu/ff=2/t=2/eps=1e-3")
    point, instead = Point.draw(spec, 0), Point.draw(other, 0)
    weights = ModularWeights(point.field, spec, point.weights)
    scale = next(piece for piece in pieces(spec) if piece.kind == "norm-scale")
    generators = point.field.reduce(scale.build(weights))
    for asked, holds in ((point, True), (instead, False)):
        rows = asked.jacobian_rows(asked.inputs_with_free_roots).T
        assert holds is not point.field.matmul(generators, rows).any()


def test_drawn_roots_have_the_derivative_of_roots() -> None:
    from segre.fields.dual import Dual, DualArray
    from segre.fields.prime import PRIMES, Prime

    field = Formal(Prime(PRIMES[0], 3), free_roots=True)
    q = field.constant(np.array([[2.0, 5.0, 4.0]]))
    found = Dual(field).sqrt(DualArray(q, np.ones((1, 3, 1))))
    r, slope = found.value, found.tangent[..., 0]
    assert (field.mul(field.mul(slope, q), field.constant(np.array([[2.0]]))) == r).all()
    assert not (field.mul(r, r) == q).all()
