"""Elements of groups of isometries: the nearest to what another model has, or those of a rule.

Which element brings one model nearest to another is the Procrustes problem for orthogonal matrices,
an assignment for orders, a phase for planes. All need only the inner products of the rows of two
models in a space. Copies are found by a few random projections instead of all inner products: they
are much nearer to each other than to any other row, and so are their projections.

The rule for one model alone: `fold` adds up columns n apart, with fixed weights, so that n rows
give an n x n matrix; in the basis that is chosen this matrix is symmetric and positive
semidefinite. Unlike eigenvectors, this basis does not depend on the gaps between singular values,
and it has no signs to choose.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from segre.checkpoint.planes import rotary_key
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.symmetry.balance import clusters
from segre.symmetry.basis import Basis
from segre.symmetry.orders import Order
from segre.symmetry.space import FloatWeights

PROBES = 16  # random directions
NEAR = 5e-3  # projections of copies of length 1 are at most this far apart
FAR = 0.05  # and those of other rows at least this far


# --- the nearest to another model -----------------------------------------------------------------


def closest(one: Basis | Order, inner: Array) -> Array:
    """The element for inner products (n, n) of rows, of each copy; of planes (planes,)."""
    if isinstance(one, Order):
        return _closest_order(one, inner)
    if one.group == "planes":
        return phases(inner)
    if one.group == "o1":
        basis = centred_basis(one.width)
        return basis @ _polar(basis.T @ inner @ basis) @ basis.T + 1 / one.width
    out = np.tile(np.eye(one.width), (*one.copies, 1, 1))
    free = np.s_[..., one.start :, one.start :]
    out[free] = _polar(inner[free])
    return out


def closest_element(
    one: Basis | Order, a: FloatWeights, b: FloatWeights, *, readers: bool = True
) -> Array:
    """The element with which `b` is nearest to `a`, by all that writes to a space or reads it."""
    sides = [*zip(one.sides(a), one.sides(b), strict=True)][: 1 + readers]
    pairs = [pair for side in sides for pair in zip(*side, strict=True)]
    if isinstance(one, Order) or one.group != "planes":
        return closest(one, sum((x @ y.swapaxes(-1, -2) for x, y in pairs), np.zeros(())))
    own = a.transformer.at(one.ports[0].tensor[0])
    rows = [tuple(rotary_key(own, x) for x in pair) for pair in pairs]
    return closest(one, sum(((x * np.conj(y)).sum(axis=-1) for x, y in rows), np.zeros(())))


def _closest_order(one: Order, inner: Array) -> Array:
    if one.kind == "order":
        return one.of(assignment(inner))
    if one.kind == "order and signs":
        return one.of(*signed_assignment(np.abs(inner), inner))
    found = [(sign, assignment(sign * inner)) for sign in (1.0, -1.0)]
    sums = [sign * inner[np.arange(one.width), order].sum() for sign, order in found]
    sign, order = found[int(np.argmax(sums))]
    return one.of(order, np.full(one.width, sign))


def assignment(gain: Array) -> Array:
    """The column of each row, all different, with the largest sum."""
    best = gain.argmax(axis=1)
    if len(np.unique(best)) == len(best):  # the best column of each row: nothing to trade
        return np.asarray(best)
    return np.asarray(linear_sum_assignment(gain, maximize=True)[1])


def signed_assignment(gain: Array, signs: Array) -> tuple[Array, Array]:
    """The same, and the sign that each row has at its column."""
    order = assignment(gain)
    return order, signs_of(signs[np.arange(len(order)), order])


def nested_assignment(gain: Array) -> tuple[Array, Array]:
    """Assignments of groups, and of the members of each, by the gain of members: (G, G, n, n)."""
    within = np.array([[assignment(pair) for pair in row] for row in gain])
    best = np.take_along_axis(gain, within[..., None], axis=-1).sum(axis=(-1, -2))
    groups = assignment(best)
    return groups, within[np.arange(len(groups)), groups]


def signs_of(numbers: Array) -> Array:
    """1 or -1; of zero 1."""
    return np.where(numbers < 0, -1.0, 1.0)


def phases(numbers: Array) -> Array:
    """Complex numbers of modulus 1; of zero 1."""
    size = np.abs(numbers)
    return np.asarray(np.where(size > 0, numbers / np.where(size > 0, size, 1), 1), complex)


def _polar(inner: Array) -> Array:
    """The orthogonal matrix G with the largest trace of G' inner: nearest to take two to one."""
    with threads_for(inner.shape[-1]):
        a, _, bh = np.linalg.svd(inner)
        return np.asarray(a @ bh)


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


def of_length_1(rows: Array, axis: int = 1) -> Array:
    """Rows, or along another axis, divided by their norms; zeros stay."""
    size = np.linalg.norm(rows, axis=axis, keepdims=True)
    return np.asarray(rows / np.where(size > 0, size, 1))


# --- by a rule ------------------------------------------------------------------------------------


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
