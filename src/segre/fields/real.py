"""Floating point: fast and approximate. What it says about a rank is an estimate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from segre.fields.interface import Array
from segre.fields.operators import Operators


class Real(Operators):
    """float64 (or another NumPy float type, to show what its precision costs).

    >>> F = Real()
    >>> F.exp(F.constant(np.zeros((1, 1)))).tolist()
    [[1.0]]
    """

    def __init__(self, dtype: npt.DTypeLike = np.float64) -> None:
        self.dtype = np.dtype(dtype)

    def __repr__(self) -> str:
        return f"Real({self.dtype.name})"

    def constant(self, x: Array) -> Array:
        """Numbers as floats."""
        return np.asarray(x, dtype=self.dtype)

    def exp(self, x: Array) -> Array:
        """Entrywise exponential."""
        return np.asarray(np.exp(x))

    def reciprocal(self, x: Array) -> Array:
        """Entrywise inverse."""
        return np.asarray(1 / x)

    def anchor(self, x: Array) -> Array:
        """Subtract each column's largest entry, so that exponentials do not overflow."""
        return np.asarray(x - x.max(axis=-2, keepdims=True))
