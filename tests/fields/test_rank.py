"""Rank over F_p against python-flint, for matrices of every shape and structure."""

import numpy as np
import pytest
from flint import nmod_mat
from hypothesis import given
from hypothesis import strategies as st

from segre.fields import Echelon, Prime, rank
from segre.fields.profile import new_rows

F = Prime()


def flint(matrix) -> nmod_mat:
    m, n = matrix.shape
    return nmod_mat(m, n, matrix.reshape(-1).tolist(), F.p)


def random_matrix(rng, m: int, n: int, r: int, density: float):
    """An m x n matrix of rank at most r, with sparse factors if density < 1."""
    A = rng.integers(0, F.p, (m, r)) * (rng.random((m, r)) < density)
    B = rng.integers(0, F.p, (r, n)) * (rng.random((r, n)) < density)
    return F.residues(F.matmul(F.constant(A), F.constant(B))) if r else np.zeros((m, n), int)


@given(
    st.integers(1, 120),
    st.integers(1, 120),
    st.floats(0, 1),
    st.sampled_from([0.05, 0.3, 1.0]),
    st.integers(0, 2**32),
)
def test_echelon_agrees_with_flint(m: int, n: int, part: float, density: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = random_matrix(rng, m, n, round(part * min(m, n)), density)
    expected = flint(matrix).rank()
    space = Echelon(n, F, capacity=int(rng.integers(0, n + 1)))
    start = 0
    while start < m:
        size = int(rng.integers(1, 60))
        before = space.rank
        assert space.add(F.constant(matrix[start : start + size])) == space.rank - before
        start += size
    assert space.rank == expected == rank(matrix, F) == rank(matrix, F, block=7)
    minor = matrix[np.ix_(space.pivot_rows, space.pivot_columns)]
    assert expected == 0 or int(flint(minor).det()) != 0
    kernel = F.reduce(space.kernel())
    assert kernel.shape == (n - expected, n)
    assert not F.matmul(F.constant(matrix), kernel.T).any()
    assert rank(kernel, F) == n - expected
    assert not space.residual(F.constant(matrix)).any()


@given(
    st.integers(0, 40),
    st.integers(1, 40),
    st.floats(0, 1),
    st.sampled_from([0.05, 0.3, 1.0]),
    st.integers(0, 2**32),
)
def test_new_rows_are_those_that_raise_the_rank(
    m: int, n: int, part: float, density: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    matrix = random_matrix(rng, m, n, round(part * min(m, n)), density)
    space = Echelon(n, F)
    expected = [i for i in range(m) if space.add(F.constant(matrix[i : i + 1]))]
    assert new_rows(F.constant(matrix), F) == expected


@pytest.mark.parametrize("kind", ["blocks", "hankel", "permutation", "one row", "identity"])
def test_structured_matrices(kind: str) -> None:
    n = 300
    rng = np.random.default_rng(1)
    if kind == "blocks":
        matrix = np.zeros((n, n), int)
        for i in range(0, n, 30):
            matrix[i : i + 30, i : i + 30] = random_matrix(rng, 30, 30, 17, 1.0)
    elif kind == "hankel":
        line = rng.integers(0, 2, 2 * n)
        matrix = np.array([line[i : i + n] for i in range(n)])
    elif kind == "permutation":
        matrix = np.eye(n, dtype=int)[rng.permutation(n)]
    elif kind == "one row":
        matrix = np.outer(rng.integers(0, F.p, n), np.ones(n, int))
    else:
        matrix = np.eye(n, dtype=int)
    assert rank(matrix, F) == flint(matrix).rank()


def test_early_stop_does_not_miss_a_late_row() -> None:
    """Random combinations of the remaining rows notice one row that differs."""
    rng = np.random.default_rng(2)
    matrix = random_matrix(rng, 3000, 80, 20, 1.0)
    assert rank(matrix, F) == 20
    matrix[-1] = rng.integers(0, F.p, 80)
    assert rank(matrix, F) == 21


def test_input_is_never_modified() -> None:
    matrix = random_matrix(np.random.default_rng(3), 90, 70, 40, 1.0).astype(float)
    copy = matrix.copy()
    rank(matrix, F)
    assert (matrix == copy).all()
