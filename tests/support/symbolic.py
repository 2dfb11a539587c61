"""Networks as exact fractions of polynomials: the oracle of bounds on degrees and heights."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction as Rational
from math import log2, prod
from typing import Any

import numpy as np
from flint import fmpz_mpoly, fmpz_mpoly_ctx

from segre.architectures import Architecture
from segre.fields.circle import Frequencies
from segre.fields.dual import Dual, DualArray
from segre.fields.interface import Array
from segre.fields.operators import Operators
from segre.network import stages
from segre.slope import Slope

_RING = fmpz_mpoly_ctx.get([f"x{n}" for n in range(160)], "degrevlex")


class Fraction:
    """A quotient of polynomials with integer coefficients, in lowest terms."""

    def __init__(self, above: fmpz_mpoly, below: fmpz_mpoly | None = None) -> None:
        if below is None or below == 1:
            self.above, self.below = above, _RING.constant(1)
        else:
            common = above.gcd(below)
            self.above, self.below = above / common, below / common

    def __add__(self, other: Fraction) -> Fraction:
        above = self.above * other.below + other.above * self.below
        return Fraction(above, self.below * other.below)

    def __sub__(self, other: Fraction) -> Fraction:
        return self + -other

    def __neg__(self) -> Fraction:
        return Fraction(-self.above, self.below)

    def __mul__(self, other: Fraction) -> Fraction:
        return Fraction(self.above * other.above, self.below * other.below)

    @property
    def degree(self) -> int:
        """That of the numerator."""
        return 0 if self.above == 0 else int(self.above.total_degree())

    @property
    def height(self) -> float:
        """Base-2 logarithm of the sum of the coefficients of the numerator, signs left out."""
        return log2(max(1, sum(abs(int(c)) for c in self.above.coeffs())))


def number(n: int) -> Fraction:
    """A whole number."""
    return Fraction(_RING.constant(n))


class Symbolic(Operators):
    """Arrays of fractions; what is not rational is a new variable, the same for the same number."""

    def __init__(self) -> None:
        self._used = 0
        self._drawn: dict[Any, Fraction] = {}

    def new(self) -> Fraction:
        """A variable that was not used."""
        self._used += 1
        return Fraction(_RING.gens()[self._used - 1])

    def variables(self, shape: tuple[int, ...]) -> Array:
        """New variables."""
        out = np.empty(prod(shape), dtype=object)
        out[:] = [self.new() for _ in range(prod(shape))]
        return out.reshape(shape)

    def constant(self, x: Array) -> Array:
        return _each(lambda n: number(int(n)), np.asarray(x))

    def fraction(self, value: Rational) -> Array:
        below = _RING.constant(value.denominator)
        own = Fraction(_RING.constant(value.numerator), below)
        return _each(lambda _: own, np.zeros((1, 1)))

    def _named(self, *name: Any) -> Fraction:
        if name not in self._drawn:
            self._drawn[name] = self.new()
        return self._drawn[name]

    def _of(self, use: str, x: Array) -> Array:
        return _each(lambda one: self._named(use, str(one.above), str(one.below)), x)

    def exp(self, x: Array, used: Array | None = None) -> Array:
        return self._of("exp", x)

    def cdf(self, x: Array) -> Array:
        return self._of("cdf", x)

    def pdf(self, x: Array) -> Array:
        return self._of("pdf", x)

    def sqrt(self, x: Array) -> Array:
        return self._of("sqrt", x)

    def sigmoid(self, x: Array) -> Array:
        return self.reciprocal(self.constant(np.ones((1, 1))) + self.exp(_each(lambda a: -a, x)))

    def reciprocal(self, x: Array) -> Array:
        return _each(lambda one: Fraction(one.below, one.above), x)

    def surd(self, n: int, over_pi: bool = False) -> Array:
        return _each(lambda _: self._named("surd", n, over_pi), np.zeros((1, 1)))

    def slope(self, rate: Slope) -> Array:
        return _each(lambda _: self._named("slope", str(rate)), np.zeros((1, 1)))

    def absorbed(self, *_: Rational) -> Array:
        return self.constant(np.ones((1, 1)))

    def turns(self, speed: Frequencies, count: int) -> tuple[Array, Array]:
        cos, sin = np.empty((2, speed.planes, count), dtype=object)
        for plane in range(speed.planes):
            s = self._named("turn", str(speed), plane)
            below = number(1) + s * s
            unit = Fraction(below.below, below.above)
            step = (number(1) - s * s) * unit, (s + s) * unit
            at = number(1), number(0)
            for m in range(count):
                cos[plane, m], sin[plane, m] = at
                at = at[0] * step[0] - at[1] * step[1], at[0] * step[1] + at[1] * step[0]
        return cos, sin


def jacobian(spec: Architecture, words: bool = False) -> Iterator[Fraction]:
    """All derivatives of outputs by weights; `words`: at one token sequence, else at variables."""
    base = Symbolic()
    field = Dual(base)
    P = spec.parameters
    weights, tangents = base.variables((P,)), base.identity(P, P, 0)
    axes = [1] * spec.head_axes
    if words:
        X = base.constant(np.eye(spec.width_in)[:, [n % spec.vocab for n in range(spec.t)]])
    else:
        X = base.variables((spec.width_in, spec.t))
        if spec.discrete:
            X[-1] = base.constant(np.ones(spec.t)) - X[:-1].sum(axis=0)
    tokens = DualArray(X.reshape(*axes, spec.width_in, spec.t))
    for stage in stages(spec):
        own = {
            name: DualArray(
                weights[slot.range].reshape(slot.shape),
                tangents[slot.range].reshape(*slot.shape, P),
            )
            for name, slot in stage.slots.items()
        }
        tokens = stage.apply(field, own, tokens)
    assert tokens.tangent is not None
    yield from tokens.tangent.reshape(-1)


def determinant(rows: list[list[Fraction]]) -> Fraction:
    """By the first row."""
    if not rows:
        return number(1)
    total = number(0)
    for n, entry in enumerate(rows[0]):
        rest = determinant([[*row[:n], *row[n + 1 :]] for row in rows[1:]])
        total = total + entry * rest * number((-1) ** n)
    return total


def _each(function: Any, x: Array) -> Array:
    out = np.empty(x.size, dtype=object)
    out[:] = [function(one) for one in x.reshape(-1)]
    return out.reshape(x.shape)
