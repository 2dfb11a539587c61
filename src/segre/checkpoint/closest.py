"""The element of a group of isometries that brings one model nearest to another.

For orthogonal matrices this is the Procrustes problem, for orders an assignment. Both need only the
inner products of the rows of two models in a space.
"""

from __future__ import annotations

import numpy as np

from segre.checkpoint.assignment import assignment
from segre.checkpoint.frame import centred_basis
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.symmetry.basis import Basis
from segre.symmetry.orders import Order
from segre.symmetry.space import FloatWeights, rotary_planes


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
    planes = rotary_planes(a.transformer, one.turning)
    rows = [tuple(complex_rows(planes, x) for x in pair) for pair in pairs]
    return closest(one, sum(((x * np.conj(y)).sum(axis=-1) for x, y in rows), np.zeros(())))


def complex_rows(planes: tuple[tuple[int, int], ...], rows: Array) -> Array:
    """The rows of rotary planes as complex rows."""
    first, second = np.array(planes).T
    return np.asarray(rows[..., first, :] + 1j * rows[..., second, :])


def _closest_order(one: Order, inner: Array) -> Array:
    if one.kind == "order":
        return one.of(assignment(inner))
    if one.kind == "order and signs":
        order = assignment(np.abs(inner))
        return one.of(order, signs_of(inner[np.arange(one.width), order]))
    found = [(sign, assignment(sign * inner)) for sign in (1.0, -1.0)]
    sums = [sign * inner[np.arange(one.width), order].sum() for sign, order in found]
    sign, order = found[int(np.argmax(sums))]
    return one.of(order, np.full(one.width, sign))


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
