"""Bounds on degrees and heights: how large are the polynomials that a forward map computes?

An element stands for an array of fractions N / (s_1^k_1 s_2^k_2 ...), where N is a polynomial with
integer coefficients in all that `Free` draws, and s_i is the product of all numerators that the
i-th division divides by. It has the degree of N, the base-2 logarithm of the sum of the absolute
values of its coefficients (its *height*), and the powers k_i: bounds for all entries of the array;
and the same for the derivatives of all entries by any one weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import log2, prod

import numpy as np

from segre.fields.circle import Frequencies
from segre.fields.composite import Composite
from segre.fields.interface import Array
from segre.slope import Slope


@dataclass(frozen=True)
class Size:
    """The degree and height of a numerator, and the powers of what it is divided by."""

    degree: int = 0
    height: float = 0.0
    below: Mapping[int, int] = field(default_factory=dict)


_ONE, _VARIABLE = Size(), Size(1)


@dataclass(frozen=True)
class Sized:
    """An array as far as it is known: its shape, and bounds on entries and their derivatives.

    `slope` is None if nothing depends on weights. The first axis, of inputs, is left out.
    """

    shape: tuple[int, ...]
    value: Size
    slope: Size | None = None


class Degrees(Composite[Sized]):
    """The field of bounds. `arguments` has how often something is drawn for how large arguments.

    >>> F = Degrees()
    >>> w, x = Sized((2, 3), Size(1), Size()), Sized((3, 1), Size(1))
    >>> F.matmul(w, x).value.degree, 2 ** F.matmul(w, x).value.height
    (2, 3.0)
    """

    def __init__(self) -> None:
        self.arguments: list[tuple[int, Size]] = []
        self._divisors: list[Size] = []  # what is divided by: the s_i
        self._known: dict[str, int] = {}  # those that have a name: whole numbers, rotations

    def constant(self, x: Array) -> Sized:
        """Integers."""
        largest = int(np.abs(x).max(initial=1))
        return Sized(np.shape(x), Size(0, log2(largest)))

    def fraction(self, value: Fraction) -> Sized:
        """A rational number: its denominator is a divisor of degree 0."""
        below = {}
        if value.denominator > 1:
            below[self._divisor(Size(0, log2(value.denominator)), str(value.denominator))] = 1
        return Sized((1, 1), Size(0, log2(max(1, abs(value.numerator))), below))

    def add(self, x: Sized, y: Sized) -> Sized:
        """Entrywise sum."""
        shape = np.broadcast_shapes(x.shape, y.shape)
        return Sized(shape, self._plus(x.value, y.value), self._either(x.slope, y.slope))

    def mul(self, x: Sized, y: Sized) -> Sized:
        """Entrywise product."""
        return self._product(x, y, np.broadcast_shapes(x.shape, y.shape), 1)

    def matmul(self, x: Sized, y: Sized) -> Sized:
        """Matrix product."""
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        return self._product(x, y, (*batch, x.shape[-2], y.shape[-1]), x.shape[-1])

    def transpose(self, x: Sized) -> Sized:
        """Rows and columns exchanged."""
        return Sized((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.value, x.slope)

    def sum(self, x: Sized, axis: int) -> Sized:
        """Sum along a negative axis, kept."""
        shape = list(x.shape)
        terms, shape[axis] = shape[axis], 1
        slope = None if x.slope is None else _times(x.slope, _ONE, terms)
        return Sized(tuple(shape), _times(x.value, _ONE, terms), slope)

    def exp(self, x: Sized, used: Array | None = None) -> Sized:  # noqa: ARG002
        """A variable e for every entry, with de = e dx."""
        return self._drawn(x, _VARIABLE)

    def cdf(self, x: Sized) -> Sized:
        """A variable for every entry; its derivative is another one times dx."""
        return self._drawn(x, _VARIABLE)

    def sqrt(self, x: Sized) -> Sized:
        """A variable r for every entry, with dr = r dx / (2 x)."""
        twice = self.reciprocal(self.add(x, x))
        return self._drawn(x, _times(_VARIABLE, twice.value))

    def reciprocal(self, x: Sized) -> Sized:
        """Entrywise inverse: the numerators of all other entries, over the product of all."""
        entries = prod(x.shape)
        own = self._divisor(Size(entries * x.value.degree, entries * x.value.height))
        others = Size((entries - 1) * x.value.degree, (entries - 1) * x.value.height)
        value = _times(self.divisor(x.value), others)
        value = Size(value.degree, value.height, {own: 1})
        slope = None if x.slope is None else _times(_times(value, value), x.slope)
        return Sized(x.shape, value, slope)

    def sigmoid(self, x: Sized) -> Sized:
        """1 / (1 + exp(-x))."""
        one = self.constant(np.ones((1, 1), dtype=np.int64))
        return self.reciprocal(self.add(one, self.exp(x)))

    def surd(self, n: int, over_pi: bool = False) -> Sized:  # noqa: ARG002
        """A variable."""
        return Sized((1, 1), _VARIABLE)

    def slope(self, rate: Slope) -> Sized:  # noqa: ARG002
        """A variable."""
        return Sized((1, 1), _VARIABLE)

    def absorbed(self, *_: Fraction) -> Sized:
        """1."""
        return Sized((1, 1), _ONE)

    def turns(self, speed: Frequencies, count: int) -> tuple[Sized, Sized]:
        """Real and imaginary part of (1 + i s)^(2 m) / (1 + s^2)^m, m < count, for every plane."""
        planes, most = speed.planes, count - 1
        own = self._divisor(Size(2 * planes, planes), str(speed))
        part = Size(2 * planes * most, (planes + 1) * most, {own: most})
        return Sized((planes, count), part), Sized((planes, count), part)

    def divisor(self, x: Size) -> Size:
        """The denominator of the fraction, multiplied out."""
        return self._over(Size(), x.below)

    def _drawn(self, x: Sized, factor: Size) -> Sized:
        self.arguments.append((prod(x.shape), x.value))
        return Sized(x.shape, _VARIABLE, None if x.slope is None else _times(factor, x.slope))

    def _product(self, x: Sized, y: Sized, shape: tuple[int, ...], terms: int) -> Sized:
        left = None if x.slope is None else _times(x.slope, y.value, terms)
        right = None if y.slope is None else _times(x.value, y.slope, terms)
        return Sized(shape, _times(x.value, y.value, terms), self._either(left, right))

    def _either(self, x: Size | None, y: Size | None) -> Size | None:
        """The sum of two derivatives, or the one there is."""
        if x is None or y is None:
            return y if x is None else x
        return self._plus(x, y)

    def _plus(self, x: Size, y: Size) -> Size:
        below = {i: max(x.below.get(i, 0), y.below.get(i, 0)) for i in {**x.below, **y.below}}
        x, y = self._over(x, below), self._over(y, below)
        return Size(max(x.degree, y.degree), float(np.logaddexp2(x.height, y.height)), below)

    def _over(self, x: Size, below: Mapping[int, int]) -> Size:
        """The same over more divisors: its numerator is multiplied by those it lacks."""
        degree, height = x.degree, x.height
        for i, power in below.items():
            more = power - x.below.get(i, 0)
            degree += more * self._divisors[i].degree
            height += more * self._divisors[i].height
        return Size(degree, height, below)

    def _divisor(self, size: Size, name: str = "") -> int:
        """The number of a divisor; one that has a name is the same every time."""
        if name in self._known:
            return self._known[name]
        self._divisors.append(size)
        if name:
            self._known[name] = len(self._divisors) - 1
        return len(self._divisors) - 1


def _times(x: Size, y: Size, terms: int = 1) -> Size:
    """The size of a sum of so many products."""
    below = {i: x.below.get(i, 0) + y.below.get(i, 0) for i in {**x.below, **y.below}}
    return Size(x.degree + y.degree, x.height + y.height + log2(max(1, terms)), below)
