"""Linear algebra on weights: ranks, bases, solutions, for float64 and exactly for rationals.

Both kinds answer the same questions. Floats decide rank by singular values against a relative
tolerance; rationals need none.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from flint import fmpq, fmpq_mat

from segre.fields.interface import Array
from segre.fields.rational import Rational

TOLERANCE = 1e-9


class LinearAlgebra(Protocol):
    """The interface of linear algebra, for any entries."""

    exact: bool

    def rank(self, matrix: Array) -> int:
        """The rank."""

    def pivots(self, matrix: Array) -> list[int]:
        """Columns that form a basis of the column space; they depend on the row space alone."""

    def solve(self, square: Array, right: Array) -> Array:
        """The solution of square X = right; square must be regular."""

    def null_space(self, matrix: Array) -> Array:
        """A basis (rows) of the vectors that the matrix sends to zero."""


class Floats:
    """float64, with a relative tolerance."""

    exact = False

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        self.tolerance = tolerance

    def rank(self, matrix: Array) -> int:
        """Singular values above the tolerance, relative to the largest."""
        if not matrix.size:
            return 0
        values = np.linalg.svd(matrix, compute_uv=False)
        return int((values > self.tolerance * values[0]).sum()) if values[0] > 0 else 0

    def pivots(self, matrix: Array) -> list[int]:
        """Greedy by distance (QR with pivoting) on the projector onto the row space.

        The projector depends on the row space alone, so the choice does too, and the columns
        chosen are well conditioned.
        """
        if not matrix.size:
            return []
        _, values, rows = np.linalg.svd(matrix, full_matrices=False)
        basis = rows[values > self.tolerance * max(values[0], np.finfo(float).tiny)]
        left = basis.copy()
        chosen: list[int] = []
        for _ in range(len(basis)):
            norms = (left**2).sum(axis=0)
            j = int(np.argmax(norms > norms.max() * (1 - 1e-6)))  # first of the longest
            chosen.append(j)
            direction = left[:, j] / np.sqrt(norms[j])
            left = left - np.outer(direction, direction @ left)
        return chosen

    def solve(self, square: Array, right: Array) -> Array:
        """By LU."""
        return np.asarray(np.linalg.solve(square, right))

    def null_space(self, matrix: Array) -> Array:
        """Right singular vectors of small singular values."""
        if not matrix.size:
            return np.eye(matrix.shape[1])
        _, values, rows = np.linalg.svd(matrix)
        rank = int((values > self.tolerance * values[0]).sum()) if values[0] > 0 else 0
        return np.asarray(rows[rank:])


class Rationals:
    """Fractions, exactly."""

    exact = True

    def rank(self, matrix: Array) -> int:
        """The rank, by FLINT."""
        return int(_flint(matrix).rank()) if matrix.size else 0

    def pivots(self, matrix: Array) -> list[int]:
        """The pivot columns of the reduced row echelon form, which the row space determines."""
        if not matrix.size:
            return []
        reduced, rank = _flint(matrix).rref()
        rows = _array(reduced)[:rank]
        return [int(np.argmax(row != 0)) for row in rows]

    def solve(self, square: Array, right: Array) -> Array:
        """By FLINT."""
        if not square.size or not right.size:
            return Rational().constant(np.zeros((square.shape[1], right.shape[1])))
        return _array(_flint(square).solve(_flint(right)))

    def null_space(self, matrix: Array) -> Array:
        """From the reduced row echelon form."""
        n = matrix.shape[1]
        identity = Rational().constant(np.eye(n, dtype=int))
        if not matrix.size:
            return identity
        reduced, rank = _flint(matrix).rref()
        rows = _array(reduced)[:rank]
        pivots = [int(np.argmax(row != 0)) for row in rows]
        free = [j for j in range(n) if j not in set(pivots)]
        basis = identity[free]
        for i, j in enumerate(pivots):
            basis[:, j] = -rows[i, free]
        return basis


def _flint(matrix: Array) -> fmpq_mat:
    rows, columns = matrix.shape
    return fmpq_mat(rows, columns, [fmpq(x) for x in matrix.reshape(-1).tolist()])


def _array(matrix: fmpq_mat) -> Array:
    out = np.empty(matrix.nrows() * matrix.ncols(), dtype=object)
    out[:] = matrix.entries()
    return out.reshape(matrix.nrows(), matrix.ncols())
