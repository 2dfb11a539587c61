"""The layers, over several fields."""

from fractions import Fraction

import numpy as np
import pytest

from segre.fields import Ball, Prime, Real
from segre.fields.circle import Frequencies, commensurable
from segre.geometry.real_point import RealPoint
from segre.models import architecture
from segre.network import forward, jacobian
from segre.transformer.layers import rotate
from segre.transformer.spec import Transformer
from support.architectures import random_transformers


@pytest.mark.parametrize("spec", list(random_transformers(2, 25)), ids=str)
def test_balls_hold_what_floats_compute(spec: Transformer) -> None:
    point, field = RealPoint(spec, 0), Ball(128)
    X = point.inputs(np.arange(1))
    floats = forward(Real(), spec, point.weights, X)
    with field.precision():
        balls = forward(field, spec, field.constant(point.weights), field.constant(X))
    middle = np.vectorize(lambda ball: float(ball.mid()), otypes=[float])(balls)
    assert np.allclose(floats, middle, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("spec", list(random_transformers(3, 20)), ids=str)
def test_the_jacobian_is_the_derivative(spec: Transformer) -> None:
    point, rng = RealPoint(spec, 1), np.random.default_rng(0)
    X = point.inputs(np.arange(2))
    direction = rng.standard_normal(spec.parameters)
    J = jacobian(Real(), spec, point.weights, X)
    step = 1e-6 * direction
    moved = forward(Real(), spec, point.weights + step, X)
    back = forward(Real(), spec, point.weights - step, X)
    slope = (moved - back).reshape(2, -1) / 2e-6
    assert np.allclose(J @ direction, slope, rtol=1e-4, atol=1e-5 * np.abs(slope).max())


def test_causal_tokens_do_not_see_later_ones() -> None:
    spec = architecture("llama/d=4/layers=2/heads=2/ff=3/t=4")
    point = RealPoint(spec, 0)
    X = point.inputs(np.arange(1))
    later = X.copy()
    later[..., -1] += 1
    before, after = (forward(Real(), spec, point.weights, inputs) for inputs in (X, later))
    assert np.allclose(before[..., :-1], after[..., :-1], rtol=1e-13, atol=1e-13)
    assert not np.allclose(before[..., -1], after[..., -1])


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("rotary", [2, 4])
def test_rotary_scores_see_differences_of_positions_only(layout: str, rotary: int) -> None:
    """One key and one query at all positions: their scores are constant along diagonals."""
    text = f"transformer/d=4/pos=rope/rotary={rotary}/layout={layout}/t=5"
    spec = Transformer.parse(text)
    key, query = np.random.default_rng(0).standard_normal((2, 4, 1))
    everywhere = np.ones((1, 5))
    K, Q = (rotate(Real(), spec, v @ everywhere, 4, 5) for v in (key, query))
    scores = K.T @ Q
    assert np.allclose(scores[1:, 1:], scores[:-1, :-1])
    assert not np.allclose(scores[0, 1:], scores[0, :-1])


@pytest.mark.parametrize(("base", "planes"), [(10_000, 1), (10_000, 2), (10_000, 3), (500_000, 4)])
def test_angles_mod_p_are_points_of_the_circle_that_add(base: int, planes: int) -> None:
    F = Prime()
    cos, sin = F.turns(Frequencies(base, planes), 6)
    assert (F.residues(F.add(F.mul(cos, cos), F.mul(sin, sin))) == 1).all()
    added = F.sub(F.mul(cos[:, 2:3], cos[:, 3:4]), F.mul(sin[:, 2:3], sin[:, 3:4]))
    assert (F.residues(added) == F.residues(cos[:, 5:6])).all()


@pytest.mark.parametrize(("base", "planes"), [(10_000, 2), (10_000, 8), (100, 4), (7, 5)])
def test_commensurable_angles_are_whole_multiples(base: int, planes: int) -> None:
    found = commensurable(base, planes)
    angles = [base ** (-j / planes) for j in range(planes)]
    for number in {number for number, _ in found}:
        units = [a / m for a, (n, m) in zip(angles, found, strict=True) if n == number]
        assert np.allclose(units, units[0])


def test_roots_mod_p_are_roots() -> None:
    F = Prime(seed=3)
    x = F.constant(np.arange(1, 400).reshape(1, -1))
    root, found = F.roots(x)
    assert 100 < found.sum() < 300
    assert (F.sub(F.mul(root, root), x)[found] == 0).all()
    assert np.array_equal(F.sqrt(x[:, found[0]]), root[:, found[0]])


def test_fractions_and_inverses_mod_p() -> None:
    F = Prime()
    third = F.fraction(Fraction(1, 3))
    assert F.residues(F.mul(third, F.constant(np.array([[3]])))).item() == 1
    x = F.constant(np.arange(1, 1000).reshape(27, 37))
    assert (F.residues(F.mul(x, F.reciprocal(x))) == 1).all()
