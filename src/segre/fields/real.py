"""Floating point: fast and approximate. What it says about a rank is an estimate."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from segre.fields.circle import Frequencies
from segre.fields.interface import Array, Factor
from segre.fields.normal import single_cdf
from segre.fields.operators import Operators, largest_entries
from segre.slope import Slope


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

    def slope(self, rate: Slope) -> Array:
        """A decay rate, rounded."""
        return self.constant(np.array([[rate.value]]))

    def exp(self, x: Array, used: Array | None = None) -> Array:  # noqa: ARG002
        """Entrywise exponential."""
        return np.asarray(np.exp(x))

    def sigmoid(self, x: Array) -> Array:
        """1 / (1 + exp(-x)); where the exponential overflows, that is 0."""
        out = np.asarray(-x)
        with np.errstate(over="ignore"):
            np.exp(out, out=out)
        out += 1
        return np.asarray(np.reciprocal(out, out=out))

    def cdf(self, x: Array) -> Array:
        """Normal distribution function."""
        if x.dtype == np.float32:
            return single_cdf(x)
        from scipy.special import ndtr  # takes a while to import

        return np.asarray(ndtr(x))

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

    def largest(self, x: Array, count: int, groups: int = 0, within: int = 0) -> Array:
        """Ones at the largest entries along axis -3."""
        return largest_entries(x, count, groups, within)

    def absorbed(self, *factor: Fraction) -> Array:
        """A factor, rounded."""
        square, up, down, of, under = Factor(*factor)
        log = math.log(of)
        value = math.sqrt(square) * (1 + float(up) * log) / (1 + float(down) * log)
        if under and of != 1:
            value *= math.sqrt(1 + log / math.log(under))
        return self.constant(np.array([[value]]))

    def turns(self, speed: Frequencies, count: int) -> tuple[Array, Array]:
        """cos and sin of m times each frequency."""
        angles = speed.floats()[:, None] * np.arange(count)
        return self.constant(np.cos(angles)), self.constant(np.sin(angles))

    def matmul(self, x: Array, y: Array) -> Array:
        """Matrix product; maps side by side, of inputs side by side in memory, are one product."""
        deep = x.ndim
        if y.ndim < deep or y.shape[-deep:-2] != (1,) * (deep - 2):
            return np.asarray(np.matmul(x, y))
        rows, batch = x.reshape(-1, x.shape[-1]), y.shape[:-deep]
        beside = np.moveaxis(y, -2, 0)
        if beside.flags.c_contiguous:
            out = np.matmul(rows, beside.reshape(len(beside), -1))
            out = np.moveaxis(out.reshape(len(rows), *batch, y.shape[-1]), 0, -2)
        elif deep == 2:
            return np.asarray(np.matmul(x, y))
        else:
            out = np.matmul(rows, y.reshape(*batch, *y.shape[-2:]))
        return np.asarray(out.reshape(*batch, *x.shape[:-1], y.shape[-1]))

    def softmax(
        self,
        scores: Array,
        seen: Array | None = None,
        used: Array | None = None,
        sink: bool = False,
    ) -> Array:
        """exp(scores), each column divided by its sum: in place, the largest subtracted first."""
        shown = used if seen is None else seen
        out = np.array(scores) if shown is None else np.where(shown, scores, -np.inf)
        top = out.max(axis=-2, keepdims=True)
        top = np.maximum(top, 0) if sink else top
        out -= top
        np.exp(out, out=out)
        total = out.sum(axis=-2, keepdims=True)
        out /= total + np.exp(-top) if sink else total
        return out

    def double_softmax(
        self, scores: Array, shown: Array | None = None, used: Array | None = None
    ) -> Array:
        """The same as a softmax of scores less the logarithms of row sums: nothing underflows."""
        given = used if shown is None else shown
        if given is not None and (given < 0).any():  # a learned decay
            return super().double_softmax(scores, shown, used)
        logs = scores
        if given is not None:
            with np.errstate(divide="ignore"):
                logs = scores + np.log(given.astype(self.dtype))
        top = logs.max(axis=-1, keepdims=True)
        sums = top + np.log(np.exp(logs - top).sum(axis=-1, keepdims=True))
        return self.softmax(logs - sums)

    def permuted(self, x: Array, order: Array) -> Array:
        """The rows of x in another order; -1 is a row of zeros."""
        out = np.take(x, order, axis=-2)
        if (order < 0).any():
            out[..., order < 0, :] = 0
        return out

    def joined(self, maps: Array, parts: Array, heads: tuple[int, int]) -> Array:
        """maps @ parts summed over heads: one product, of all heads side by side."""
        if maps.ndim != 4 or parts.ndim < 4 or heads != maps.shape[1::-1]:
            return super().joined(maps, parts, heads)
        d, columns = maps.shape[-2], parts.shape[-1]
        wide = maps.transpose(2, 0, 1, 3).reshape(d, -1)
        batch = parts.shape[:-4]
        beside = np.moveaxis(parts.reshape(*batch, -1, columns), -2, 0)
        out = np.matmul(wide, np.ascontiguousarray(beside).reshape(len(beside), -1))
        out = np.moveaxis(out.reshape(d, *batch, columns), 0, -2)
        return np.asarray(out[..., None, None, :, :])

    def reciprocal(self, x: Array) -> Array:
        """Entrywise inverse."""
        return np.asarray(1 / x)

    def anchor(self, x: Array, used: Array | None = None, axis: int = -2) -> Array:
        """Subtract each column's largest entry that is used: exponentials do not overflow."""
        if used is None:
            return np.asarray(x - x.max(axis=axis, keepdims=True))
        top = np.where(used, x, -np.inf).max(axis=axis, keepdims=True)
        return np.asarray(np.minimum(x - top, 0.0))
