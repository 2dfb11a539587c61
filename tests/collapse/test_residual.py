"""What measures of token matrices must satisfy, whatever the tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segre.collapse.residual import (
    mean_cosine,
    norm,
    norm_1,
    norm_inf,
    ranks,
    relative_residual,
    residual,
)

seeds = st.integers(0, 10**6)
shapes = st.tuples(st.integers(1, 6), st.integers(1, 6))


def bracket(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers between which the least composite norm of X - 1 x^T over all rows x lies.

    Below: the median minimises every column sum, and no row is nearer to all tokens than half
    their largest distance. Above: the better of mean and median.
    """
    apart = X - np.median(X, axis=-2, keepdims=True)
    distances = np.abs(X[..., :, None, :] - X[..., None, :, :]).sum(axis=-1)
    below = np.sqrt(norm_1(apart)) * np.sqrt(distances.max(axis=(-2, -1)) / 2)
    return below, np.minimum(norm(residual(X)), norm(apart))


def measures(X: np.ndarray) -> dict[str, np.ndarray]:
    relative = {kind: relative_residual(X, kind) for kind in ("composite", "frobenius")}
    return {**relative, "cosine": mean_cosine(X), **ranks(X)}


def tokens(shape: tuple[int, ...], seed: int):
    return np.random.default_rng(seed).standard_normal(shape)


@given(shapes, seeds)
def test_a_common_row_changes_no_residual(shape: tuple[int, int], seed: int) -> None:
    X, row = tokens(shape, seed), tokens((1, shape[1]), seed + 1)
    assert np.allclose(residual(X + row), residual(X))
    assert np.allclose(residual(np.ones((shape[0], 1)) * row), 0)


@given(shapes, seeds)
def test_the_mean_is_the_best_row_for_frobenius(shape: tuple[int, int], seed: int) -> None:
    X, row = tokens(shape, seed), tokens((1, shape[1]), seed + 1)
    assert norm(residual(X), "frobenius") <= norm(X - row, "frobenius") * (1 + 1e-12)


@given(shapes, seeds)
def test_norms_are_those_of_numpy_and_lie_between_each_other(
    shape: tuple[int, int], seed: int
) -> None:
    X = tokens(shape, seed)
    assert norm_1(X) == pytest.approx(np.linalg.norm(X, 1))
    assert norm_inf(X) == pytest.approx(np.linalg.norm(X, np.inf))
    assert np.linalg.norm(X, 2) <= norm(X) * (1 + 1e-12)


@given(shapes, seeds)
def test_no_row_is_below_the_bracket(shape: tuple[int, int], seed: int) -> None:
    X = tokens(shape, seed)
    low, high = bracket(X)
    n = shape[0]
    assert low <= high * (1 + 1e-12)
    if n > 1:
        assert norm(residual(X)) <= 2 * (1 - 1 / n) * high * (1 + 1e-12)
    rng = np.random.default_rng(seed)
    middle = np.median(X, axis=0)
    for _ in range(20):
        assert norm(X - middle - rng.standard_normal(shape[1]) / 4) >= low * (1 - 1e-12)


@given(shapes, seeds, st.floats(1e-3, 1e3))
def test_relative_measures_have_no_scale(shape: tuple[int, int], seed: int, c: float) -> None:
    X = tokens(shape, seed)
    two = measures(c * X)
    for name, value in measures(X).items():
        assert np.allclose(value, two[name])
    assert np.allclose(norm(residual(c * X)), c * norm(residual(X)))


@given(shapes, seeds)
def test_a_batch_is_one_at_a_time(shape: tuple[int, int], seed: int) -> None:
    X = tokens((2, 3, *shape), seed)
    together = measures(X)
    for i in range(2):
        for j in range(3):
            for name, value in measures(X[i, j]).items():
                assert np.allclose(value, together[name][i, j])


@given(st.integers(2, 6), st.integers(1, 6), seeds)
def test_tokens_all_alike(n: int, d: int, seed: int) -> None:
    X = np.ones((n, 1)) * tokens((1, d), seed)
    found = measures(X)
    assert found["rank"] == 1
    assert found["stable_rank"] == pytest.approx(1)
    assert found["cosine"] == pytest.approx(1)
    assert found["composite"] < 1e-15 * n


@given(st.integers(1, 5), seeds)
def test_rank_is_that_of_the_factors(rank: int, seed: int) -> None:
    X = tokens((8, rank), seed) @ tokens((rank, 7), seed + 1)
    found = ranks(X)
    assert found["rank"] == rank
    assert 1 <= found["stable_rank"] <= rank


@given(st.integers(2, 6), st.integers(1, 6), seeds)
def test_the_mean_cosine_is_the_mean_of_cosines(n: int, d: int, seed: int) -> None:
    X = tokens((n, d), seed)
    pairs = [
        X[i] @ X[j] / np.linalg.norm(X[i]) / np.linalg.norm(X[j])
        for i in range(n)
        for j in range(n)
        if i != j
    ]
    assert mean_cosine(X) == pytest.approx(np.mean(pairs))


def test_nothing_is_alike() -> None:
    found = measures(np.zeros((3, 2)))
    assert not any(value.any() for value in found.values())


def test_the_precision_of_the_tokens_sets_the_tolerance() -> None:
    X = tokens((6, 2), 0) @ tokens((2, 6), 1)
    assert ranks(X.astype(np.float32))["rank"] == 2
    assert ranks(X.astype(np.float32), tolerance=1e-15)["rank"] > 2
    assert ranks(X)["rank"] == 2
    assert len(ranks(X)["spectrum"]) == 6
