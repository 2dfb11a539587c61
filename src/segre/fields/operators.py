"""The arithmetic that NumPy does by itself, for floats and for objects with operators alike."""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array


class Operators:
    """Sums and products of arrays by Python's operators; fields add what differs."""

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

    def transpose(self, x: Array) -> Array:
        """Rows and columns exchanged."""
        return x.swapaxes(-1, -2)

    def sum(self, x: Array, axis: int) -> Array:
        """Sum along an axis, kept."""
        return np.asarray(x.sum(axis=axis, keepdims=True))
