"""Dual numbers over any array field: a value and its derivatives in D directions.

The tangent of an array of shape S has shape S + (D,): directions come last, so that the
product rule is two ordinary batched matrix products, with no copies. Arrays may have tangents in
different numbers of directions; those that are missing at the end are zero, so that what does not
depend on the last variables yet does not carry zeros for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from segre.fields.interface import Array, ArrayField
from segre.fields.lifted import Lifted


@dataclass(frozen=True, slots=True)
class DualArray:
    """value + epsilon . tangent; a tangent of None is zero."""

    value: Array
    tangent: Array | None = None


class Dual(Lifted[DualArray]):
    """Forward-mode differentiation: the field of dual numbers over `base`.

    >>> from segre.fields import Real
    >>> x = DualArray(np.array([[3.0]]), np.array([[[1.0]]]))
    >>> F = Dual(Real())
    >>> F.mul(x, x).tangent.item(), F.reciprocal(x).tangent.item() == -1 / 9
    (6.0, True)
    """

    def __init__(self, base: ArrayField) -> None:
        self.base = base

    def add(self, x: DualArray, y: DualArray) -> DualArray:
        """Entrywise sum."""
        if x.tangent is None or y.tangent is None:
            tangent = y.tangent if x.tangent is None else x.tangent
        else:
            tangent = self._plus(x.tangent, y.tangent)
        return DualArray(self.base.add(x.value, y.value), tangent)

    def mul(self, x: DualArray, y: DualArray) -> DualArray:
        """Entrywise product, by the product rule."""
        left = None if x.tangent is None else self.base.loose_mul(x.tangent, y.value[..., None])
        right = None if y.tangent is None else self.base.loose_mul(x.value[..., None], y.tangent)
        return DualArray(self.base.mul(x.value, y.value), self._plus(left, right))

    def matmul(self, x: DualArray, y: DualArray) -> DualArray:
        """Matrix product, by the product rule."""
        left = right = None
        if x.tangent is not None:  # sum_k dx[r,k,D] y[k,c]: for each row r, y^T dx[r]
            left = self.base.loose_matmul(y.value.swapaxes(-1, -2)[..., None, :, :], x.tangent)
        if y.tangent is not None:  # sum_k x[r,k] dy[k,c,D]: columns and directions as one axis
            *batch, k, c, directions = y.tangent.shape
            wide = self.base.loose_matmul(x.value, y.tangent.reshape(*batch, k, c * directions))
            right = wide.reshape(*wide.shape[:-1], c, directions)
        return DualArray(self.base.matmul(x.value, y.value), self._plus(left, right))

    def transpose(self, x: DualArray) -> DualArray:
        """Rows and columns exchanged."""
        tangent = None if x.tangent is None else x.tangent.swapaxes(-2, -3)
        return DualArray(self.base.transpose(x.value), tangent)

    def sum(self, x: DualArray, axis: int) -> DualArray:
        """Sum along a negative axis, kept."""
        tangent = None if x.tangent is None else self.base.sum(x.tangent, axis - 1)
        return DualArray(self.base.sum(x.value, axis), tangent)

    def lift(self, x: Array) -> DualArray:
        """A constant: no tangent."""
        return DualArray(x)

    def exp(self, x: DualArray, used: Array | None = None) -> DualArray:
        """Exponential: its derivative is itself."""
        value = self.base.exp(x.value, used)
        return self._along(x, value, lambda: value)

    def reciprocal(self, x: DualArray) -> DualArray:
        """1/x, with derivative -1/x^2."""
        value = self.base.reciprocal(x.value)
        return self._along(x, value, lambda: self.base.mul(-value, value))

    def sigmoid(self, x: DualArray) -> DualArray:
        """s(x), with derivative s - s^2."""
        value = self.base.sigmoid(x.value)
        return self._along(x, value, lambda: self.base.sub(value, self.base.mul(value, value)))

    def cdf(self, x: DualArray) -> DualArray:
        """Normal distribution function: its derivative is the density."""
        return self._along(x, self.base.cdf(x.value), lambda: self.base.pdf(x.value))

    def sqrt(self, x: DualArray) -> DualArray:
        """Root r of x, with derivative r/(2x): so a drawn root is homogeneous like a true one."""
        base, value = self.base, self.base.sqrt(x.value)
        twice = base.add(x.value, x.value)
        return self._along(x, value, lambda: base.mul(value, base.reciprocal(twice)))

    def relu(self, x: DualArray) -> DualArray:
        """x where it is positive."""
        return self._along(x, self.base.relu(x.value), lambda: self.base.step(x.value))

    def largest(self, x: DualArray, count: int, groups: int = 0, within: int = 0) -> Array:
        """Which entries are largest does not change near x."""
        return self.base.largest(x.value, count, groups, within)

    def anchor(self, x: DualArray, used: Array | None = None, axis: int = -2) -> DualArray:
        """The base's shift, held constant: a softmax has no derivative along it."""
        return DualArray(self.base.anchor(x.value, used, axis), x.tangent)

    def _along(self, x: DualArray, value: Array, slope: Callable[[], Array]) -> DualArray:
        """A function of one variable: its value, and its derivative times x's tangent."""
        if x.tangent is None:
            return DualArray(value)
        return DualArray(value, self.base.mul(slope()[..., None], x.tangent))

    def _plus(self, x: Array | None, y: Array | None) -> Array | None:
        """The sum of two tangents, or the one there is; they may be loose."""
        if x is None or y is None:
            one = y if x is None else x
            return None if one is None else self.base.tight(one)
        if x.shape[-1] == y.shape[-1]:
            return self.base.tight(x + y)
        short, long = (x, y) if x.shape[-1] < y.shape[-1] else (y, x)
        common = short + long[..., : short.shape[-1]]
        out = np.empty((*common.shape[:-1], long.shape[-1]), dtype=common.dtype)
        out[..., : short.shape[-1]] = common
        out[..., short.shape[-1] :] = long[..., short.shape[-1] :]
        return self.base.tight(out)
