"""Which rows of a small matrix over F_p are no combinations of the rows before them?

FLINT is done with a small matrix before NumPy has made the calls that a block elimination takes,
and its reduced echelon form has its pivots in the first columns that can have them. Of the
transposed matrix these are the rows asked for.
"""

from __future__ import annotations

from flint import nmod_mat

from segre.fields.interface import Array
from segre.fields.prime import Prime

SMALL = 1 << 16  # entries up to which this is faster than an `Echelon`


def new_rows(matrix: Array, field: Prime) -> list[int]:
    """The numbers of the rows, balanced residues, that each add one to the rank.

    >>> import numpy as np
    >>> new_rows(np.array([[0.0, 0, 0], [1, 2, 3], [2, 4, 6], [0, 1, 0]]), Prime())
    [1, 3]
    """
    rows, columns = matrix.shape
    if not matrix.size:
        return []
    transposed = nmod_mat(columns, rows, field.p)
    at, below = matrix.nonzero()
    values = field.residues(matrix[at, below])
    for i, j, value in zip(at.tolist(), below.tolist(), values.tolist(), strict=True):
        transposed[j, i] = value
    echelon, rank = transposed.rref()
    found: list[int] = []
    column = 0
    for row in range(rank):
        while not int(echelon[row, column]):
            column += 1
        found.append(column)
        column += 1
    return found
