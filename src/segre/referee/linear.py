"""How large is a span over F_p? Bases, annihilators and growing ranks of flint matrices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flint import nmod_mat

from segre.referee.meter import RESIDUES, charge, meter
from segre.referee.rejection import RejectionError


def identity(size: int, prime: int) -> nmod_mat:
    """The unit matrix."""
    result = nmod_mat(size, size, prime)
    for i in range(size):
        result[i, i] = 1
    return result


def integers(matrix: nmod_mat) -> list[list[int]]:
    """The entries as numbers 0..p-1, row by row."""
    return [[int(entry) for entry in row] for row in matrix.tolist()]


def above(matrices: Sequence[nmod_mat]) -> nmod_mat:
    """Matrices of equal width (at least one), one above the other."""
    first = matrices[0]
    rows = sum(matrix.nrows() for matrix in matrices)
    charge(rows * first.ncols() * RESIDUES.entry)
    entries = [entry for matrix in matrices for entry in matrix.entries()]
    return nmod_mat(rows, first.ncols(), entries, first.modulus())


def beside(matrices: Sequence[nmod_mat]) -> nmod_mat:
    """Matrices of equal height (at least one), side by side."""
    return above([matrix.transpose() for matrix in matrices]).transpose()


def total(matrices: Sequence[nmod_mat]) -> nmod_mat:
    """The sum of matrices of equal size (at least one)."""
    result = matrices[0]
    for matrix in matrices[1:]:
        result = result + matrix
    return result


def top(matrix: nmod_mat, rows: int) -> nmod_mat:
    """The first rows of a matrix."""
    return select(matrix, range(rows), range(matrix.ncols()))


def select(matrix: nmod_mat, rows: Sequence[int], columns: Sequence[int]) -> nmod_mat:
    """The submatrix of these rows and columns, in this order."""
    charge(len(rows) * len(columns) * RESIDUES.entry)
    result = nmod_mat(len(rows), len(columns), matrix.modulus())
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            result[i, j] = matrix[row, column]
    return result


def row_basis(matrix: nmod_mat, dimension: int, what: str) -> nmod_mat:
    """A basis of the row space, which must have this dimension."""
    reduced, rank = echelon_form(matrix)
    if rank != dimension:
        raise RejectionError(
            f"{what} has dimension {rank} at this point, not the generic {dimension}"
        )
    return top(reduced, rank)


def annihilator(matrix: nmod_mat, what: str) -> list[list[int]]:
    """A basis of the vectors orthogonal to all rows of a matrix, which must have full rank."""
    charge(_elimination(matrix.nrows(), matrix.ncols()))
    charge(matrix.ncols() ** 2 * RESIDUES.entry)
    basis, nullity = matrix.nullspace()
    rank = matrix.ncols() - nullity
    if rank != min(matrix.nrows(), matrix.ncols()):
        raise RejectionError(f"{what} has rank {rank} at this point, which is not full")
    return integers(basis.transpose())[:nullity]


def echelon_form(matrix: nmod_mat) -> tuple[nmod_mat, int]:
    """The reduced echelon form, and the rank."""
    charge(_elimination(matrix.nrows(), matrix.ncols()))
    reduced, rank = matrix.rref()
    return reduced, int(rank)


def determinant(matrix: nmod_mat) -> int:
    """The determinant, 0..p-1."""
    charge(_elimination(matrix.nrows(), matrix.ncols()))
    return int(matrix.det())


def _elimination(rows: int, columns: int) -> float:
    return RESIDUES.matmul(rows, min(rows, columns), columns)


class Echelon:
    """A span that grows: each call of `add` says by how much.

    Kept as blocks in reduced echelon form, each with zeros in the pivots of the blocks
    before it, so that new rows cost one product per block and old ones are never redone.
    """

    def __init__(self) -> None:
        self._blocks: list[tuple[list[int], nmod_mat]] = []
        self._rank = 0

    def add(self, rows: nmod_mat) -> int:
        """Add these rows to the span and return how much its dimension grew."""
        everything = range(rows.nrows())
        for pivots, block in self._blocks:
            shares = select(rows, everything, pivots)
            if shares:
                charge(RESIDUES.matmul(rows.nrows(), len(pivots), rows.ncols()))
                rows = rows - shares * block
        reduced, rank = echelon_form(rows)
        self._rank += rank
        meter().require_bytes(16 * self._rank * rows.ncols())  # whatever rank is claimed
        if rank:
            self._blocks.append((_pivots(reduced, rank), top(reduced, rank)))
        return rank


def _pivots(reduced: nmod_mat, rank: int) -> list[int]:
    pivots: list[int] = []
    column = 0
    for row in range(rank):
        while not reduced[row, column]:
            column += 1
        pivots.append(column)
    return pivots


def dense(
    vectors: Iterable[Iterable[tuple[int, int]]], rows: int, columns: int, prime: int
) -> nmod_mat:
    """Sparse vectors, lists of (index, value) without repeated index, as rows of a matrix."""
    result = nmod_mat(rows, columns, prime)
    for i, vector in enumerate(vectors):
        charge(RESIDUES.step)
        for j, value in vector:
            result[i, j] = value
    return result
