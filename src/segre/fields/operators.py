"""The arithmetic that NumPy does by itself, for floats and for objects with operators alike."""

from __future__ import annotations

import numpy as np

from segre.fields.composite import Composite
from segre.fields.interface import Array


class Operators(Composite[Array]):
    """Sums and products of arrays by Python's operators; fields add what differs."""

    def constant(self, x: Array) -> Array:
        """Integers as elements."""
        raise NotImplementedError

    def add(self, x: Array, y: Array) -> Array:
        """Entrywise sum."""
        return np.asarray(x + y)

    def sub(self, x: Array, y: Array) -> Array:
        """Entrywise difference."""
        return np.asarray(x - y)

    def mul(self, x: Array, y: Array) -> Array:
        """Entrywise product."""
        return np.asarray(x * y)

    def matmul(self, x: Array, y: Array) -> Array:
        """Matrix product."""
        return np.asarray(np.matmul(x, y))

    def loose_mul(self, x: Array, y: Array) -> Array:
        """Entrywise product."""
        return self.mul(x, y)

    def loose_matmul(self, x: Array, y: Array) -> Array:
        """Matrix product."""
        return self.matmul(x, y)

    def tight(self, x: Array) -> Array:
        """Nothing to do: numbers are kept as they are."""
        return x

    def identity(self, rows: int, columns: int, first: int) -> Array:
        """Ones at (i, first + i), zeros elsewhere."""
        return self.constant(np.eye(rows, columns, first, dtype=np.int64))

    def transpose(self, x: Array) -> Array:
        """Rows and columns exchanged."""
        return x.swapaxes(-1, -2)

    def sum(self, x: Array, axis: int) -> Array:
        """Sum along an axis, kept."""
        return np.asarray(x.sum(axis=axis, keepdims=True))


def best_groups(x: Array, groups: int, within: int) -> Array:
    """Ones along axis -3 in the groups whose two largest entries have the largest sums."""
    moved = np.moveaxis(x, -3, -1)
    split = moved.reshape(*moved.shape[:-1], groups, -1)
    sums = np.sort(split, axis=-1)[..., -2:].sum(axis=-1)
    order = np.argsort(-sums, axis=-1, kind="stable")[..., :within]
    out = np.zeros(sums.shape, dtype=np.int64)
    np.put_along_axis(out, order, 1, axis=-1)
    return np.moveaxis(np.repeat(out, split.shape[-1], axis=-1), -1, -3)


def largest_entries(x: Array, count: int, groups: int = 0, within: int = 0) -> Array:
    """Ones at the `count` largest entries along axis -3, zeros elsewhere; as fields have it."""
    if groups:
        x = np.where(best_groups(x, groups, within), x, -np.inf)
    order = np.argsort(-x, axis=-3, kind="stable")
    out = np.zeros(x.shape, dtype=np.int64)
    np.put_along_axis(out, np.take(order, range(count), axis=-3), 1, axis=-3)
    return out
