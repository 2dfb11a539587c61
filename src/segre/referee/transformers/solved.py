"""Which unknowns solve linear equations that are independent? For families 47, 53 and 54."""

from __future__ import annotations

from collections.abc import Sequence

from flint import nmod_mat

from segre.referee.linear import select
from segre.referee.meter import RESIDUES, charge
from segre.referee.rejection import RejectionError


def solutions(columns: Sequence[Sequence[int]], p: int) -> list[list[int]]:
    """A basis of the x with sum x_i columns[i] = 0; nothing if the equations are dependent."""
    unknowns, equations = len(columns), len(columns[0]) if columns else 0
    charge((unknowns + 1) * equations * RESIDUES.entry + unknowns**2 * RESIDUES.entry)
    charge(RESIDUES.matmul(unknowns, unknowns, max(equations, unknowns)))
    if not equations:
        return [[int(i == j) for j in range(unknowns)] for i in range(unknowns)]
    entries = [entry for column in columns for entry in column]
    kernel, nullity = nmod_mat(unknowns, equations, entries, p).transpose().nullspace()
    if unknowns - nullity < equations:
        return []
    return [[int(kernel[i, k]) for i in range(unknowns)] for k in range(nullity)]


def inverse(matrix: nmod_mat) -> nmod_mat:
    """The inverse of a square matrix, which must have one."""
    n = matrix.nrows()
    charge(RESIDUES.matmul(n, n, n) + n * n * RESIDUES.entry)
    try:
        found: nmod_mat = matrix.inv()
    except ZeroDivisionError:
        raise RejectionError("the point is unusable: a matrix has no inverse mod p") from None
    return found


def left_inverse(matrix: nmod_mat) -> nmod_mat:
    """L with L matrix = 1: the inverse of its first rows, and zeros."""
    rows, n = matrix.nrows(), matrix.ncols()
    found = inverse(select(matrix, range(n), range(n)))
    result = nmod_mat(n, rows, matrix.modulus())
    for i in range(n):
        for j in range(n):
            result[i, j] = found[i, j]
    return result


def numbers(matrix: nmod_mat) -> list[int]:
    """All entries, row by row."""
    return [int(entry) for entry in matrix.entries()]
