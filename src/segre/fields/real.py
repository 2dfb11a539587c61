"""Floating point: fast and approximate. What it says about a rank is an estimate."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from segre.fields.circle import Frequencies
from segre.fields.interface import Array
from segre.fields.operators import Operators, largest_entries


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

    def fraction(self, value: Fraction) -> Array:
        """A rational number, rounded."""
        return self.constant(np.array([[float(value)]]))

    def surd(self, n: int, over_pi: bool = False) -> Array:
        """A square root, rounded."""
        return self.constant(np.array([[math.sqrt(n / math.pi if over_pi else n)]]))

    def exp(self, x: Array, used: Array | None = None) -> Array:  # noqa: ARG002
        """Entrywise exponential."""
        return np.asarray(np.exp(x))

    def sigmoid(self, x: Array) -> Array:
        """1 / (1 + exp(-x)), without overflow."""
        return np.asarray((1 + np.tanh(x / 2)) / 2)

    def cdf(self, x: Array) -> Array:
        """Normal distribution function."""
        return self.constant((1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2)

    def pdf(self, x: Array) -> Array:
        """Normal density."""
        return np.asarray(np.exp(-x * x / 2) / math.sqrt(2 * math.pi))

    def sqrt(self, x: Array) -> Array:
        """Square root."""
        return np.asarray(np.sqrt(x))

    def relu(self, x: Array) -> Array:
        """The larger of x and 0."""
        return np.asarray(np.maximum(x, 0))

    def step(self, x: Array) -> Array:
        """1 where x > 0."""
        return self.constant(x > 0)

    def largest(self, x: Array, count: int) -> Array:
        """Ones at the largest entries along axis -3."""
        return largest_entries(x, count)

    def absorbed(
        self,
        square: Fraction,
        up: Fraction = Fraction(0),
        down: Fraction = Fraction(0),
        of: Fraction = Fraction(1),
    ) -> Array:
        """A factor, rounded."""
        log = math.log(of)
        value = math.sqrt(square) * (1 + float(up) * log) / (1 + float(down) * log)
        return self.constant(np.array([[value]]))

    def turns(self, speed: Frequencies, count: int) -> tuple[Array, Array]:
        """cos and sin of m times each frequency."""
        angles = speed.floats()[:, None] * np.arange(count)
        return self.constant(np.cos(angles)), self.constant(np.sin(angles))

    def reciprocal(self, x: Array) -> Array:
        """Entrywise inverse."""
        return np.asarray(1 / x)

    def anchor(self, x: Array, used: Array | None = None) -> Array:
        """Subtract each column's largest entry that is used: exponentials do not overflow."""
        if used is None:
            return np.asarray(x - x.max(axis=-2, keepdims=True))
        top = np.where(used, x, -np.inf).max(axis=-2, keepdims=True)
        return np.asarray(np.minimum(x - top, 0.0))
