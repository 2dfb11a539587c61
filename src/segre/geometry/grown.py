"""A larger nonsingular minor, found by bordering a nonsingular one in ball arithmetic.

With A regular and M = [[A, B], [C, D]], a minor of the Schur complement D - C A^-1 B is regular if
and only if the minor of M that contains A and borders it is. So it is eliminated, largest entry
first, as long as there is an entry that is not zero: balls see entries that floats cannot tell
from rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from flint import arb, arb_mat

from segre.fields.interface import Array

_LARGEST = 2_000_000  # multiplications of an elimination


def bordered(J: Array, rows: Sequence[int], columns: Sequence[int]) -> tuple[list[int], list[int]]:
    """Rows and columns of a regular minor of J, a matrix of balls, that contains a regular one.

    >>> J = np.array([[arb(1), arb(2), arb(0)], [arb(2), arb(4), arb(0)], [arb(0), arb(0), arb(7)]])
    >>> bordered(J, [0], [0])
    ([0, 2], [0, 2])
    """
    height, width = J.shape
    others = [r for r in range(height) if r not in set(rows)]
    across = [c for c in range(width) if c not in set(columns)]
    rest = J[np.ix_(others, across)]
    if len(rows) and rest.size:
        A, B = _matrix(J[np.ix_(rows, columns)]), _matrix(J[np.ix_(rows, across)])
        try:
            product = _matrix(J[np.ix_(others, columns)]) * A.solve(B)
        except ZeroDivisionError:  # at this precision
            return list(rows), list(columns)
        rest = rest - np.array(product.tolist(), dtype=object)
    more = _pivots(rest)
    found_rows = sorted([*rows, *(others[r] for r, _ in more)])
    return found_rows, sorted([*columns, *(across[c] for _, c in more)])


def _matrix(entries: Array) -> arb_mat:
    return arb_mat(entries.tolist())


def _pivots(rest: Array) -> list[tuple[int, int]]:
    """Rows and columns of the entries that a complete elimination divides by."""
    found: list[tuple[int, int]] = []
    left = np.arange(len(rest))
    while len(left) and len(found) * rest.size < _LARGEST:
        sizes = _sizes(rest)
        r, c = divmod(int(sizes.argmax()), rest.shape[1])
        if sizes[r, c] == -np.inf:
            break
        found.append((int(left[r]), c))
        pivot = rest[r]
        left, rest = np.delete(left, r), np.delete(rest, r, axis=0)
        factors = rest[:, c] / pivot[c]
        rest = rest - factors[:, None] * pivot[None, :]
        rest[:, c] = arb(0)
    return found


def _sizes(entries: Array) -> Array:
    """Logarithms of entries that are not zero; minus infinity for those that may be."""

    def size(ball: arb) -> float:
        least = ball.abs_lower()
        return float(least.log()) if least > 0 else -np.inf

    found: Array = np.asarray(np.frompyfunc(size, 1, 1)(entries), dtype=float)
    return found
