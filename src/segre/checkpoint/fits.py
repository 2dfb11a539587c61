"""Bases in which two sets of rows are the same but for a few directions.

A change of low rank is a difference in a few directions. They are found and left out while bases
are fitted to the rest, so that the fit does not depend on the change. A fit counts only if what is
left differs by rounding alone.
"""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array

_FITS = 400  # at most, for each number of directions
_STEP = 0.97  # a fit helps if it leaves less of the squares than this
_MOST = 128  # columns are enough for one scale; of more, random combinations are compared

Rows = tuple[Array, Array]  # of both: (blocks, group, n, m); each block has a basis of its own


def common(read: Rows, written: Rows, near: float, degree: int = 1) -> Array:
    """Bases (blocks, n, n) in which what is read and written agrees in most directions.

    What is read is multiplied by them, and what is written (as rows) by inverse conjugates.
    """

    def other(g: Array) -> Array:
        if degree != 1:
            return np.asarray(np.abs(g) ** -float(degree))
        return np.linalg.inv(g).conj().swapaxes(-1, -2)

    def one(g: Array) -> Array:
        return other(g) if degree == 1 else np.asarray(np.abs(g) ** (-1 / degree))

    same = np.broadcast_to(np.eye(read[0].shape[2]), (len(read[0]), *2 * read[0].shape[2:3]))
    known = [same]
    for pair, to in ((read, lambda g: g), (written, one)):
        if (found := _fitted(*pair, near)) is not None:
            known.append(to(found))
    if len(known) == 1:
        return np.array(same)
    far = [
        unlike(g[:, None] @ read[1] - read[0], read[0], near)
        + unlike(other(g)[:, None] @ written[1] - written[0], written[0], near)
        for g in known
    ]
    return np.array(known[int(np.argmin(far))])


def _fitted(one: Array, two: Array, near: float) -> Array | None:
    """Bases in which `two` is `one` but for the fewest directions; None if those are many."""
    n = one.shape[2]
    one, two = (combined(x, max(4 * n, _MOST)) for x in (one, two))
    m, noise = one.shape[-1], rounding_noise(one, near, one) ** 2
    low, rank, high, best = -1, 0, m, None
    every = np.eye(m)
    while low + 1 < high and 2 * rank <= m - n:
        basis, rest, every = _but_for(one, two, every[:, m - rank :])
        low, high, best = (low, rank, basis) if rest <= noise else (rank, high, best)
        rank = (low + high) // 2 if best is not None else max(1, 2 * rank)
    return best


def _but_for(one: Array, two: Array, directions: Array) -> tuple[Array, float, Array]:
    """Bases, the largest square that is left, and directions by what is left in them.

    As many directions as are given are left out, those in which both differ most, and the bases are
    fitted to the rest; as often as this helps.
    """
    m, rank = directions.shape
    last = np.inf
    for _ in range(_FITS if rank else 1):
        basis = _least_squares(*(x - (x @ directions) @ directions.T for x in (one, two)))
        squares, every = spectrum(basis[:, None] @ two - one)
        directions, rest = every[:, m - rank :], float(squares[m - rank - 1])
        if rest > _STEP * last:
            break
        last = rest
    return basis, rest, every


def combined(rows: Array, most: int) -> Array:
    """Random combinations of columns, if there are more than so many."""
    if rows.shape[-1] <= most:
        return rows
    drawn = np.random.default_rng(0).standard_normal((rows.shape[-1], most))
    return np.asarray(rows @ drawn / most**0.5)


def _least_squares(one: Array, two: Array) -> Array:
    """Bases that bring `two` nearest to `one`; what is 0 stays as it is."""
    seen = two.conj().swapaxes(-1, -2)
    inner, square = (one @ seen).sum(axis=1), (two @ seen).sum(axis=1)
    trace = np.trace(square, axis1=-1, axis2=-2).real[:, None, None]
    ridge = (1e-14 * trace + 1e-300) * np.eye(square.shape[-1])
    return np.asarray((inner + ridge) @ np.linalg.inv(square + ridge))


def spectrum(difference: Array) -> tuple[Array, Array]:
    """Squares of singular values of (blocks, group, n, m), as one matrix, and directions (m, m)."""
    rows = difference.reshape(-1, difference.shape[-1])
    if np.iscomplexobj(rows):
        rows = np.concatenate([rows.real, rows.imag])
    squares, directions = np.linalg.eigh(rows.T @ rows)
    return squares.clip(0), directions


def rounding_noise(matrix: Array, near: float, of: Array) -> float:
    """The largest singular value that rounding of a tensor gives to a matrix of its shape."""
    rows, columns = matrix[..., 0].size * (1 + np.iscomplexobj(matrix)), matrix.shape[-1]
    return float(near * np.linalg.norm(of) * (rows**-0.5 + columns**-0.5))


def unlike(difference: Array, of: Array, near: float) -> float:
    """In how many directions, weighed by the logarithm of their size, something differs."""
    difference = combined(difference, 4 * _MOST)
    squares, _ = spectrum(difference)
    return float(np.log1p(squares / rounding_noise(difference, near, of) ** 2).sum())
