"""Bases determined by the weights: the same for all copies of one function.

`fold` adds up columns n apart, with fixed weights, so that n rows give an n x n matrix; in the
basis that is chosen this matrix is symmetric and positive semidefinite. Unlike eigenvectors, this
basis does not depend on the gaps between singular values, and it has no signs to choose: one row
is made to have a positive weighted sum.
"""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.symmetry.balance import clusters


def weights(m: int) -> Array:
    """Fixed numbers between 1 and 2, without a pattern: 1 and fractions of j golden ratios.

    Not all equal, because rows that a LayerNorm reads sum to zero.
    """
    return np.asarray(1 + np.modf(np.arange(1, m + 1) * ((1 + 5**0.5) / 2))[0])


def fold(rows: Array) -> Array:
    """(n, m) -> (n, n): column j, times its weight, is added to column j mod n.

    >>> fold(np.array([[1, 2, 3], [4, 5, 6]])).round(2).tolist()
    [[7.18, 2.47], [17.6, 6.18]]
    """
    n, m = rows.shape
    padded = np.concatenate([rows * weights(m), np.zeros((n, -m % n))], axis=1)
    return np.asarray(padded.reshape(n, -1, n).sum(axis=1))


def chosen_basis(rows: Array, slack: float = 0.0) -> Array:
    """The orthogonal matrix P for which fold(P @ rows) is symmetric and positive semidefinite.

    The identity, if that holds already to within `slack` of the norm of `rows`.
    """
    folded = fold(rows)
    near = slack * np.linalg.norm(rows)
    symmetric = np.linalg.norm(folded - folded.T) <= near
    if slack and symmetric and np.linalg.eigvalsh(folded)[0] >= -near:
        return np.eye(len(rows))
    a, sigma, bh = np.linalg.svd(folded)
    return bh.T @ a.T if sigma[0] > 0 else np.eye(len(rows))


def chosen_frame(rows: Array, slack: float = 0.0) -> Array:
    """Signs of balanced rows, which are orthogonal, and bases for rows with equal norms."""
    sums, near = rows @ weights(rows.shape[1]), slack * np.linalg.norm(rows, axis=1)
    out = np.diag(np.where(sums < -near, -1.0, 1.0))  # the bases of single rows
    with threads_for(len(rows)):
        group = clusters(np.linalg.eigvalsh(rows @ rows.T)[::-1].clip(0))
        for number in np.flatnonzero(np.bincount(group) > 1):
            chosen = np.flatnonzero(group == number)
            out[np.ix_(chosen, chosen)] = chosen_basis(rows[chosen], slack)
    return out


def centred_basis(d: int) -> Array:
    """Orthonormal columns (d, d - 1), all orthogonal to (1, ..., 1)."""
    from scipy.linalg import helmert

    return np.asarray(helmert(d)).T


def descending(keys: Array, slack: float = 0.0) -> Array:
    """The order from the largest key to the smallest; unchanged if it holds within `slack`."""
    if slack and (keys[1:] <= keys[:-1] * (1 + slack)).all():
        return np.arange(len(keys))
    return np.argsort(-keys, kind="stable")
