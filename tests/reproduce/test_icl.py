"""In-context regression: exact fixed points, moments, and segre's own forward map."""

from fractions import Fraction

import numpy as np
import pytest

from segre.reproduce.icl_descent import (
    Weights,
    drawn,
    fixed_points,
    levels,
    merged,
    population,
    predicted,
    separate,
    sequences,
    steps_by_point,
    steps_near,
)


def random_problem(seed: int) -> tuple[list[Fraction], int]:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 5))
    values = sorted({int(value) for value in rng.integers(1, 40, size=size)}, reverse=True)
    return [Fraction(value, 37) for value in values], int(rng.integers(1, 50))


@pytest.mark.parametrize("seed", range(8))
def test_the_gradient_is_exactly_zero_at_all_fixed_points(seed: int) -> None:
    eigenvalues, context = random_problem(seed)
    found = fixed_points(eigenvalues, context)
    assert len(found) == 2 ** len(eigenvalues)
    assert len({point.W for point in found}) == len(found)
    assert all(type(point.slope) is Fraction and point.slope == 0 for point in found)
    still = [point.directions for point in found if point.merged_slope == 0]
    assert still == [(), tuple(range(1, len(eigenvalues) + 1))]
    nested = [p.loss for p in found if p.directions == tuple(range(1, len(p.directions) + 1))]
    assert nested == levels(eigenvalues, context)
    assert min(point.loss for point in found) == found[-1].loss


@pytest.mark.parametrize("seed", range(4))
def test_no_other_matrix_has_a_smaller_loss(seed: int) -> None:
    """The last fixed point is the minimum of a convex function: its gradient by W is zero."""
    eigenvalues, context = random_problem(seed)
    loss = population(eigenvalues, context)
    best = fixed_points(eigenvalues, context)[-1]
    W = np.array(best.W, dtype=object)
    assert all(value == 0 for value in loss.gradient(W))
    rng = np.random.default_rng(seed)
    for _ in range(20):
        other = W + np.array([Fraction(int(n), 7) for n in rng.integers(-3, 4, len(W))])
        assert loss.value(other) >= best.loss


def test_levels_of_the_reference() -> None:
    known = levels([Fraction(k, 10) for k in range(1, 5)], 31)
    assert [round(float(value), 5) for value in known] == [1, 0.64058, 0.37737, 0.2098, 0.136]


@pytest.mark.parametrize("seed", range(3))
def test_drawn_sequences_have_the_moments_of_the_closed_form(seed: int) -> None:
    rng = np.random.default_rng(seed)
    eigenvalues = [0.5, 0.3, 0.2]
    tokens, labels = sequences(eigenvalues, 7, 40_000, rng)
    found, known = drawn(tokens, labels), population(eigenvalues, 7)
    assert np.allclose(found.linear, known.linear.astype(float), atol=0.02)
    assert np.allclose(found.square, known.square, atol=0.02)
    v, k, q = rng.standard_normal(4), rng.standard_normal((4, 3)), rng.standard_normal((4, 3))
    W = np.einsum("h,hi,hj->ij", v, k, q).reshape(-1)
    mean = ((labels - predicted(v, k, q, tokens)) ** 2).mean()
    assert mean == pytest.approx(found.value(W), rel=1e-9)


def test_both_parametrisations_start_from_one_function_and_descend() -> None:
    eigenvalues = [0.6, 0.4]
    loss = population(eigenvalues, 10)
    start = Weights.drawn((0, 1, 2), 3, 2, 0.3)
    (path, last), other = separate(loss, start, 2000, 0.05), merged(loss, start, 2000, 0.05)
    assert np.allclose(path[0], other[0])
    for W in (path, other):
        losses = loss.value(W)
        assert (np.diff(losses, axis=0) <= 1e-12).all()
    assert np.allclose(loss.value(other)[-1], levels(eigenvalues, 10)[-1], atol=1e-4)
    W = np.einsum("sh,shi,shj->sij", last.v, last.k, last.q).reshape(3, -1)
    assert np.allclose(W, path[-1])


def test_steps_are_counted_where_they_are() -> None:
    points = fixed_points([Fraction(1, 2), Fraction(1, 4)], 5)
    centres = np.array([[float(value) for value in point.W] for point in points])
    path = np.stack([centres[[0]], centres[[1]], centres[[1]], centres[[-1]]])
    assert steps_by_point(path, points)[:, 0].tolist() == [1, 2, 0, 1]
    assert steps_near(np.array([[1.0], [1.04], [0.9]]), 1.0) == [2]
