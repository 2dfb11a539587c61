"""The pictures show what their captions say."""

import numpy as np
import pytest

from segre.errors import SegreError
from segre.geometry.slices import discriminant, fiber_curve, segre_cone
from segre.spec import Network
from segre.weights import Weights


def matrices(x, y, z):
    """2 x 2 matrices from the coordinates of the affine cut, trace one."""
    z11, z22 = (1 + x) / 2, (1 - x) / 2
    return np.moveaxis(np.array([[z11, (y + z) / 2], [(y - z) / 2, z22]]), (0, 1), (-2, -1))


def test_both_cuts_lie_on_the_segre_cone() -> None:
    cone = segre_cone(21)
    x, y, z = cone.cone
    z11, z22, z12 = (z + x) / 2, (z - x) / 2, y / 2
    assert np.allclose(z11 * z22, z12**2)
    Z = matrices(*cone.quadric)
    assert np.allclose(np.linalg.det(Z), 0)


def test_rulings_are_lines_of_constant_V_and_constant_A() -> None:
    """z = x y^T: constant V is a constant column space, constant A a constant row space."""
    cone = segre_cone(5)
    for lines, axis in ((cone.rulings_V, 1), (cone.rulings_A, 0)):
        for line in lines:
            Z = matrices(*line)
            assert np.allclose(np.linalg.det(Z), 0, atol=1e-12)
            joined = np.concatenate(list(Z), axis=axis)  # columns side by side, or rows stacked
            assert np.linalg.matrix_rank(joined, tol=1e-9) == 1


@pytest.mark.parametrize("seed", range(20))
def test_real_products_stay_outside_the_wall(seed: int) -> None:
    rng = np.random.default_rng(seed)
    u, q = rng.standard_normal((2, 1)), rng.standard_normal((1, 2))
    w, k = rng.standard_normal((2, 2))
    points = [("P", u @ w[None], k[:, None] @ q, 1), ("Q", u @ w[None], w[:, None] @ q, 1)]
    free, wall = discriminant(points).placed
    assert np.hypot(free.x, free.y) > 1
    assert np.isclose(np.hypot(wall.x, wall.y), 1)
    assert wall.stratum.boundary
    assert not free.stratum.boundary


def test_what_does_not_fit_the_slice_is_refused() -> None:
    for V, A in ((np.eye(2), np.ones((2, 2))), (np.ones((1, 3)), np.ones((3, 3)))):
        with pytest.raises(SegreError, match="rank one"):
            discriminant([("P", V, A, 2)])
    w, k = np.array([[1.0, 1.0]]), np.array([[1.0], [-1.0]])
    with pytest.raises(SegreError, match="infinity"):
        discriminant([("P", w, k @ np.ones((1, 2)), 1)])


@pytest.mark.parametrize("text", ["softmax/d=3,3/a=2/t=3", "lightning/d=3,3,2/a=3/dv=1/t=2"])
def test_the_curve_moves_and_the_function_does_not(text: str) -> None:
    curve = fiber_curve(Weights.random(Network.parse(text), 1), steps=41)
    assert curve.deviation < 1e-12
    assert np.allclose(curve.curve[0], curve.curve[-1])
    assert np.ptp(curve.curve, axis=0).min() > 0.1
    with pytest.raises(SegreError, match="a >= 2"):
        fiber_curve(Weights.random(Network.parse("softmax/d=3,3/a=1/t=3")))
