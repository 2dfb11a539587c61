"""What are determinants, ranks and annihilators mod p? Flint's, of arrays of whole numbers.

>>> int(determinant(np.array([[2, 3], [5, 7]]), 101)), rank(np.array([[1, 2], [2, 4]]), 101)
(100, 1)
>>> annihilator(np.array([[1, 2]]), 101).tolist()
[[99, 1]]
"""

from __future__ import annotations

import numpy as np
from flint import nmod_mat
from numpy.typing import NDArray

from segre.kernel.document import RejectionError
from segre.kernel.meter import RESIDUES, charge, meter

Matrix = NDArray[np.int64]
_ENTRY_BYTES = 56  # in numpy, as a whole number of Python and in flint


def matrix(entries: Matrix, prime: int) -> nmod_mat:
    """The same matrix in flint."""
    rows, columns = entries.shape
    charge(rows * columns * RESIDUES.entry)
    meter().require_bytes(_ENTRY_BYTES * rows * columns)
    return nmod_mat(rows, columns, entries.ravel().tolist(), prime)


def array(entries: nmod_mat) -> Matrix:
    """The same matrix in numpy."""
    rows, columns = entries.nrows(), entries.ncols()
    charge(rows * columns * RESIDUES.entry)
    return np.array([int(x) for x in entries.entries()], np.int64).reshape(rows, columns)


def _elimination(rows: int, columns: int) -> float:
    return RESIDUES.matmul(rows, min(rows, columns), columns)


def _afford(rows: int, columns: int) -> None:
    """Ask for the time of an elimination, and charge it; matrices are read and written once."""
    work = _elimination(rows, columns)
    meter().require(work + (2 * rows + columns) * columns * 2 * RESIDUES.entry)
    charge(work)


def determinant_work(size: int) -> float:
    """The seconds that a determinant will be charged."""
    return _elimination(size, size) + size * size * RESIDUES.entry


def determinant(entries: Matrix, prime: int) -> int:
    """The determinant, 0..p-1."""
    charge(_elimination(*entries.shape))
    return int(matrix(entries, prime).det())


def rank(entries: Matrix, prime: int) -> int:
    """The rank."""
    _afford(*entries.shape)
    return int(matrix(entries, prime).rank())


def row_basis(entries: Matrix, prime: int) -> Matrix:
    """A basis of the row space: the reduced echelon form."""
    _afford(*entries.shape)
    reduced, found = matrix(entries, prime).rref()
    return array(reduced)[:found]


def annihilator(entries: Matrix, prime: int) -> Matrix:
    """A basis (rows) of the vectors that are orthogonal to all rows."""
    rows, columns = entries.shape
    _afford(rows, columns)
    charge(columns**2 * RESIDUES.entry)
    basis, nullity = matrix(entries, prime).nullspace()
    return array(basis.transpose())[:nullity]


def left_inverse(basis: Matrix, prime: int) -> Matrix:
    """L with L B = 1, for linearly independent columns B: the inverse of a regular minor of B."""
    size, count = basis.shape
    reduced = row_basis(np.concatenate([basis.T, np.eye(count, dtype=np.int64)], 1), prime)
    pivots = (reduced != 0).argmax(1)
    if (pivots >= size).any():
        raise RejectionError("columns that must be independent are not at this point")
    result = np.zeros((count, size), np.int64)
    result[:, pivots] = reduced[:, size:].T
    return result
