"""Which row of one matrix goes with which row of another?

The best assignment needs the inner products of all rows with all. Copies are found by a few random
projections instead: they are much nearer to each other than to any other row, and so are their
projections. Where that is not certain, there is no answer.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from segre.fields.interface import Array

PROBES = 16  # random directions
NEAR = 5e-3  # projections of copies of length 1 are at most this far apart
FAR = 0.05  # and those of other rows at least this far


def assignment(gain: Array) -> Array:
    """The column of each row, all different, with the largest sum."""
    best = gain.argmax(axis=1)
    if len(np.unique(best)) == len(best):  # the best column of each row: nothing to trade
        return np.asarray(best)
    return np.asarray(linear_sum_assignment(gain, maximize=True)[1])


def copied_rows(one: Array, two: Array, *, signed: bool = False) -> tuple[Array, Array] | None:
    """For each row of `one`, the row of `two` that is a positive (if `signed`, any) multiple of it.

    Also returns the signs. Rows of zeros are copies of each other. None if a row has no copy, or
    more than one candidate.

    >>> rows = np.random.default_rng(0).standard_normal((4, 100))
    >>> order, signs = copied_rows(rows, -rows[[2, 0, 3, 1]], signed=True)
    >>> order.tolist(), signs.tolist()
    ([1, 3, 0, 2], [-1.0, -1.0, -1.0, -1.0])
    >>> copied_rows(rows, -rows) is None
    True
    """
    from scipy.spatial import cKDTree

    x, y = projected(one), projected(two)
    rows, columns = (np.flatnonzero(points.any(axis=1)) for points in (x, y))
    if len(rows) != len(columns) or len(rows) == 0:
        return None
    order, signs = np.empty(len(one), np.int64), np.ones(len(one))
    order[~x.any(axis=1)] = np.flatnonzero(~y.any(axis=1))
    y = y[columns]
    points = np.concatenate([y, -y]) if signed else y
    distances, found = cKDTree(points).query(x[rows], k=2, distance_upper_bound=FAR)
    nearest = found[:, 0]
    if (distances[:, 0] > NEAR).any() or np.isfinite(distances[:, 1]).any():
        return None
    order[rows] = columns[nearest % len(y)]
    signs[rows] = np.where(nearest >= len(y), -1.0, 1.0)
    return (order, signs) if len(np.unique(order)) == len(order) else None


def projected(rows: Array) -> Array:
    """Random projections of the rows of a matrix, each scaled to length 1; zeros of zeros."""
    probes = np.random.default_rng(0).standard_normal((rows.shape[1], PROBES)) / PROBES**0.5
    sizes = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return np.asarray(rows @ probes / np.where(sizes > 0, sizes, 1))
