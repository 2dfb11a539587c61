"""Reverse-mode differentiation over floats and balls: the derivatives of one number by many.

Every operation on what is differentiated is written on a tape, with what it does to derivatives.
Gone through backwards, the tape gives the gradient at the cost of a few forward passes. Weights and
constants are not differentiated, and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from segre.fields.interface import Array, ArrayField
from segre.fields.lifted import Lifted
from segre.fields.real import Real

Pull = Callable[[Array], Array]  # the derivative by an operand, of that by the result


@dataclass(eq=False, slots=True)
class Traced:
    """An array, and how derivatives go back to what it was made of."""

    value: Array
    pulls: tuple[tuple[Traced, Pull], ...] = ()
    live: bool = False  # whether it depends on a variable
    gradient: Array | None = field(default=None, repr=False)


class Reverse(Lifted[Traced]):
    """A field whose arrays Python's operators serve, with a tape.

    >>> F = Reverse()
    >>> x = F.variable(np.array([[3.0]]))
    >>> F.backward(F.mul(x, F.exp(x)), np.ones((1, 1)))
    >>> bool(x.gradient.item() == (1 + 3) * np.exp(3))
    True
    """

    def __init__(self, base: ArrayField | None = None) -> None:
        self.base: ArrayField = Real() if base is None else base
        self.tape: list[Traced] = []

    def variable(self, value: Array) -> Traced:
        """What is differentiated by."""
        return Traced(value, live=True)

    def backward(self, out: Traced, seed: Array) -> None:
        """Give all that is on the tape the gradient of the sum of seed times out."""
        out.gradient = np.asarray(seed)
        for node in reversed(self.tape):
            if node.gradient is None:
                continue
            for operand, pull in node.pulls:
                if operand.live:
                    found = _fitted(pull(node.gradient), operand.value.shape)
                    old = operand.gradient
                    operand.gradient = found if old is None else old + found

    def _made(self, value: Array, *pulls: tuple[Traced, Pull]) -> Traced:
        live = tuple((operand, pull) for operand, pull in pulls if operand.live)
        node = Traced(value, live, bool(live))
        if live:
            self.tape.append(node)
        return node

    def lift(self, x: Array) -> Traced:
        """A constant: nothing is differentiated by it."""
        return Traced(x)

    # --- arithmetic -----------------------------------------------------------------------------

    def add(self, x: Traced, y: Traced) -> Traced:
        """Entrywise sum."""
        return self._made(x.value + y.value, (x, lambda g: g), (y, lambda g: g))

    def mul(self, x: Traced, y: Traced) -> Traced:
        """Entrywise product."""
        return self._made(x.value * y.value, (x, lambda g: g * y.value), (y, lambda g: g * x.value))

    def matmul(self, x: Traced, y: Traced) -> Traced:
        """Matrix product."""
        return self._made(
            self.base.matmul(x.value, y.value),
            (x, lambda g: g @ y.value.swapaxes(-1, -2)),
            (y, lambda g: x.value.swapaxes(-1, -2) @ g),
        )

    def transpose(self, x: Traced) -> Traced:
        """Rows and columns exchanged."""
        return self._made(x.value.swapaxes(-1, -2), (x, lambda g: g.swapaxes(-1, -2)))

    def sum(self, x: Traced, axis: int) -> Traced:
        """Sum along a negative axis, kept."""
        return self._made(
            x.value.sum(axis=axis, keepdims=True), (x, lambda g: np.broadcast_to(g, x.value.shape))
        )

    def permuted(self, x: Traced, order: Array) -> Traced:
        """The rows of x in another order; -1 is a row of zeros."""

        def back(g: Array) -> Array:
            out = self.base.constant(np.zeros((*g.shape[:-2], *x.value.shape[-2:])))
            kept = np.flatnonzero(order >= 0)
            out[..., order[kept], :] = g[..., kept, :]
            return out

        return self._made(self.base.permuted(x.value, order), (x, back))

    def joined(self, maps: Traced, parts: Traced, heads: tuple[int, int]) -> Traced:
        """maps @ parts, summed over heads."""
        return self._made(
            self.base.joined(maps.value, parts.value, heads),
            (maps, lambda g: g @ parts.value.swapaxes(-1, -2)),
            (parts, lambda g: maps.value.swapaxes(-1, -2) @ g),
        )

    # --- functions ------------------------------------------------------------------------------

    def exp(self, x: Traced, used: Array | None = None) -> Traced:
        """Exponential."""
        value = self.base.exp(x.value, used)
        return self._made(value, (x, lambda g: g * value))

    def reciprocal(self, x: Traced) -> Traced:
        """Inverse."""
        value = self.base.reciprocal(x.value)
        return self._made(value, (x, lambda g: -g * value * value))

    def sigmoid(self, x: Traced) -> Traced:
        """1 / (1 + exp(-x))."""
        value = self.base.sigmoid(x.value)
        return self._made(value, (x, lambda g: g * value * (1 - value)))

    def cdf(self, x: Traced) -> Traced:
        """Normal distribution function."""
        return self._made(self.base.cdf(x.value), (x, lambda g: g * self.base.pdf(x.value)))

    def sqrt(self, x: Traced) -> Traced:
        """Square root."""
        value = self.base.sqrt(x.value)
        return self._made(value, (x, lambda g: g / (2 * value)))

    def relu(self, x: Traced) -> Traced:
        """The larger of x and 0."""
        return self._made(self.base.relu(x.value), (x, lambda g: g * self.base.step(x.value)))

    def largest(self, x: Traced, count: int, groups: int = 0, within: int = 0) -> Array:
        """Which entries are largest does not change near x."""
        return self.base.largest(x.value, count, groups, within)

    def anchor(self, x: Traced, used: Array | None = None, axis: int = -2) -> Traced:
        """A shift, held constant: a softmax has no derivative along it."""
        return self._made(self.base.anchor(x.value, used, axis), (x, lambda g: g))

    def softmax(
        self,
        scores: Traced,
        seen: Traced | None = None,
        used: Array | None = None,
        sink: bool = False,
    ) -> Traced:
        """exp(scores), each column divided by its sum."""
        P = self.base.softmax(scores.value, None if seen is None else seen.value, used, sink)

        def back(g: Array) -> Array:
            return np.asarray(P * (g - (g * P).sum(axis=-2, keepdims=True)))

        return self._made(P, (scores, back))


def _fitted(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Summed over the axes along which an operand was repeated."""
    extra = gradient.ndim - len(shape)
    if extra > 0:
        gradient = gradient.sum(axis=tuple(range(extra)))
    axes = tuple(n for n, size in enumerate(shape) if size == 1 and gradient.shape[n] != 1)
    return np.asarray(gradient.sum(axis=axes, keepdims=True) if axes else gradient)
