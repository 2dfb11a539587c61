"""Tokens whose mean and residual are kept apart, as a number system for the forward map.

Columns are x + 2^e r_j, with one column x for all tokens and residuals of size about one. Sums,
products, roots and activations keep the two apart by differences that are never of numbers nearly
equal; so does attention, as the columns of a pattern sum to one. Without skips the residual of a
transformer can then be followed past every floor, in the same `stages` as everything else
(`continued`). Where a variant has skips, its curve does not come near the floor, and ends there if
it does.

Roundings are estimated beside the residuals. Where they may be more than a millionth of a percent
of those after a sub-layer, the residual is not known from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp2, log10
from typing import Any

import numpy as np

from segre.checkpoint.model import Model
from segre.collapse.activations import mean_over, mean_slope, normal_density
from segre.collapse.mixing import Masked, Unmasked
from segre.collapse.residual import norm
from segre.collapse.split import CERTAIN, ROUNDING, log10_of
from segre.collapse.variants import Variant
from segre.fields import Real
from segre.fields.interface import Array
from segre.transformer.forward import AFTER, ATTENTION, MLP, Place, Tokens, run

_LEAST = 1e-290


@dataclass(frozen=True, slots=True)
class Apart:
    """Columns `mean` + 2^exponent `rest`; roundings in `rest` are about as large as `noise`."""

    mean: Array  # (..., rows, 1)
    rest: Array  # (..., rows, tokens)
    exponent: float
    noise: Array  # (..., rows, tokens); infinite from where the residual is not known

    @classmethod
    def of(cls, columns: Array) -> Apart:
        """Columns, split into mean and residual."""
        mean = columns.mean(axis=-1, keepdims=True)
        return _scaled(mean, columns - mean, 0.0, ROUNDING * np.abs(columns))

    @property
    def step(self) -> Array:
        """The residual as floats, 0 where it is too small for them."""
        return np.asarray(self.rest * exp2(min(self.exponent, 1000.0)))

    @property
    def whole(self) -> Array:
        """The columns, as far as floats can tell."""
        return np.asarray(self.mean + self.step)

    def rearranged(self, place: Callable[[Array], Array]) -> Apart:
        """The same with rows in other places, or added up."""
        return Apart(place(self.mean), place(self.rest), self.exponent, place(self.noise))

    def mapped(self, one: Callable[[Array], Array], size: Callable[[Array], Array]) -> Apart:
        """Through a linear map; `size` is the map with the absolute values of its entries."""
        loose = self.noise + ROUNDING * np.abs(self.rest)
        return Apart(one(self.mean), one(self.rest), self.exponent, size(loose))

    def settled(self) -> Apart:
        """The same after a sub-layer: the mean is that of all columns, the noise is judged."""
        middle = self.rest.mean(axis=-1, keepdims=True)
        rest = self.rest - middle
        fine = self.noise.max() <= CERTAIN * np.abs(rest).max()
        mean = self.mean + middle * exp2(min(self.exponent, 1000.0))
        return _scaled(mean, rest, self.exponent, np.full(rest.shape, 0.0 if fine else np.inf))

    def log10_relative(self) -> float:
        """log10 of the relative residual of the first input; nan where it is not known."""
        if self.noise.any():
            return float("nan")
        rest, whole = norm(self.rest[0, 0, 0]), norm(self.whole[0, 0, 0])
        if whole < _LEAST:  # and has lost digits
            return float("nan")
        return float(log10_of(rest) + self.exponent * log10(2) - log10(whole))


@dataclass(frozen=True, slots=True)
class Turned:
    """Keys, transposed: what they are multiplied by are queries."""

    keys: Apart


@dataclass(frozen=True, slots=True)
class Scores:
    """keys^T queries, of one pair or of several whose scores are added, times a factor."""

    pairs: tuple[tuple[Apart, Apart], ...]
    factor: float = 1.0

    @property
    def whole(self) -> Array:
        """The scores, as far as floats can tell: row = key, column = query."""
        every = (keys.whole.swapaxes(-1, -2) @ queries.whole for keys, queries in self.pairs)
        return np.asarray(self.factor * sum(every))


class ApartField(Real):
    """The operations of the forward map on `Apart`; weights and constants are plain arrays."""

    def largest(self, x: Any, count: int, groups: int = 0, within: int = 0) -> Array:
        """Which entries are largest."""
        return super().largest(x.whole, count, groups, within)

    def add(self, x: Any, y: Any) -> Any:
        """Entrywise sum."""
        if isinstance(x, Scores):
            if x is y:
                return replace(x, factor=2 * x.factor)
            assert isinstance(y, Scores)
            assert x.factor == y.factor
            return replace(x, pairs=x.pairs + y.pairs)
        if not isinstance(x, Apart):
            x, y = y, x
        if not isinstance(x, Apart):
            return super().add(x, y)
        if not isinstance(y, Apart):
            if y.shape[-1] == 1:
                return replace(x, mean=x.mean + y)
            y = Apart.of(y)
        e = max(x.exponent, y.exponent)
        one, two = exp2(x.exponent - e), exp2(y.exponent - e)
        rest = x.rest * one + y.rest * two
        noise = x.noise * one + y.noise * two + ROUNDING * np.abs(rest)
        return Apart(x.mean + y.mean, rest, e, noise)

    def mul(self, x: Any, y: Any) -> Any:
        """Entrywise product."""
        if isinstance(x, Scores):
            return replace(x, factor=x.factor * float(y.item()))
        if not isinstance(x, Apart):
            x, y = y, x
        if not isinstance(x, Apart):
            return super().mul(x, y)
        if not isinstance(y, Apart):
            if y.shape[-1] > 1 and (y != y[..., :1]).any():
                return Apart.of(x.whole * y)
            y = y[..., :1]
            noise = (x.noise + ROUNDING * np.abs(x.rest)) * np.abs(y)
            return Apart(x.mean * y, x.rest * y, x.exponent, noise)
        e = max(x.exponent, y.exponent)
        one, two = exp2(x.exponent - e), exp2(y.exponent - e)
        left, right = x.whole * two, y.mean * one
        rest = left * y.rest + right * x.rest
        noise = np.abs(left) * (y.noise + ROUNDING * np.abs(y.rest))
        noise = noise + np.abs(right) * (x.noise + ROUNDING * np.abs(x.rest))
        return _scaled(x.mean * y.mean, rest, e, noise)

    def matmul(self, x: Any, y: Any) -> Any:
        """Matrix product: of a map and tokens, of keys and queries, of values and a pattern."""
        if isinstance(x, Turned):
            return Scores(((x.keys, y),))
        if isinstance(y, Masked | Unmasked):
            common, own, noise, exponent = y.mixed(x.rest, x.noise, exp2(min(x.exponent, 1000.0)))
            mean = np.broadcast_to(x.mean + common, (*own.shape[:-1], 1))
            return _scaled(mean, own, x.exponent + exponent, noise)
        if not isinstance(y, Apart):
            return super().matmul(x, y)
        return y.mapped(partial(super().matmul, x), partial(super().matmul, np.abs(x)))

    def joined(self, maps: Array, parts: Any, heads: tuple[int, int]) -> Any:
        """maps @ parts, summed over heads."""
        own = partial(super().joined, heads=heads)
        return parts.mapped(partial(own, maps), partial(own, np.abs(maps)))

    def transpose(self, x: Any) -> Any:
        """Rows and columns exchanged."""
        return Turned(x) if isinstance(x, Apart) else super().transpose(x)

    def permuted(self, x: Any, order: Array) -> Any:
        """The rows in another order."""
        return x.rearranged(partial(super().permuted, order=order))

    def sum(self, x: Any, axis: int) -> Any:
        """Sum along an axis, kept."""
        own = partial(super().sum, axis=axis)
        return x.rearranged(own) if isinstance(x, Apart) else own(x)

    def softmax(
        self,
        scores: Any,
        seen: Array | None = None,
        used: Array | None = None,
        sink: bool = False,
    ) -> Any:
        """A pattern: behind a mask, or of scores that are not products, from the whole scores."""
        assert not sink  # patterns sum to one here
        if seen is not None or not isinstance(scores, Scores):
            whole = scores.whole if isinstance(scores, Scores) else scores
            return Masked.of(whole, used)
        return Unmasked.of([_parts(*pair) for pair in scores.pairs], scores.factor)

    def shares(self, x: Any, chosen: Array | None = None) -> Any:
        """exp(x), divided by its sum along axis -3: of the chosen entries only, or of all."""
        low = replace(x, mean=x.mean - x.mean.max(axis=-3, keepdims=True))

        def slope(a: Array, h: Array) -> Array:
            grown = np.where(h == 0, 1.0, np.expm1(h) / np.where(h == 0, 1.0, h))
            return np.asarray(np.exp(a) * grown)

        grown = _along(low, np.exp, slope)
        if chosen is not None:
            grown = self.mul(grown, self.constant(chosen))
        return self.mul(grown, self.reciprocal(self.sum(grown, axis=-3)))

    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + exp(-x))."""
        if isinstance(x, Scores):
            x = x.whole
        s = super().sigmoid
        if not isinstance(x, Apart):
            return s(x)

        def slope(a: Array, h: Array) -> Array:
            near = np.abs(h) < 1
            small = np.where(near & (h != 0), h, 1.0)
            grown = np.where(h == 0, 1.0, np.expm1(small) / small)
            far = (s(a + h) - s(a)) / np.where(near, 1.0, h)
            return np.where(near, s(a) * s(-a - h) * grown, far)

        return _along(x, s, slope)

    def cdf(self, x: Any) -> Any:
        """Normal distribution function."""
        cdf = super().cdf
        return _along(x, cdf, lambda a, h: mean_over(normal_density, cdf, a, h))

    def sqrt(self, x: Any) -> Any:
        """Square root."""
        return _along(x, np.sqrt, lambda a, h: 1 / (np.sqrt(a) + np.sqrt(a + h)))

    def reciprocal(self, x: Any) -> Any:
        """Entrywise inverse."""
        return _along(x, np.reciprocal, lambda a, h: -1 / (a * (a + h)))

    def relu(self, x: Any) -> Any:
        """The larger of x and 0."""
        return _along(x, super().relu, lambda a, h: mean_slope("relu", a, h))


def _along(
    x: Apart, function: Callable[[Array], Array], slope: Callable[[Array, Array], Array]
) -> Apart:
    """A function of one variable; `slope` is its difference over a step, by the step."""
    mean = slope(x.mean, x.step)
    noise = np.abs(mean) * (x.noise + ROUNDING * np.abs(x.rest))
    return _scaled(function(x.mean), x.rest * mean, x.exponent, noise)


def _scaled(mean: Array, rest: Array, exponent: float, noise: Array) -> Apart:
    """The same columns, the largest entry of the residual brought between 1/2 and 1."""
    size = int(np.frexp(np.abs(rest).max())[1])
    return Apart(mean, np.ldexp(rest, -size), exponent + size, np.ldexp(noise, -size))


def _parts(keys: Apart, queries: Apart) -> tuple[Array, ...]:
    """What a pattern is made of, keys and queries in rows."""
    mean = queries.mean * np.ones_like(queries.rest[..., :1])
    every = (keys.rest, keys.noise, mean, queries.rest, queries.noise)
    return (
        *(np.swapaxes(each, -1, -2) for each in every),
        np.array(keys.exponent),
        np.array(queries.exponent),
    )


def can_continue(model: Model, variant: Variant) -> bool:
    """Whether a variant has patterns that sum to one, and no skips."""
    attention, mlp = (variant.edit(model.spec, number) for number in (ATTENTION, MLP))
    assert attention is not None
    skips = attention.residual or (mlp is not None and mlp.residual and model.spec.mlp != "none")
    return attention.sums_to_one and not skips


def continued(model: Model, variants: Sequence[Variant], words: Array) -> list[Array]:
    """log10 of the relative residual of tokens (1, n) before the layers and after each."""
    found = np.zeros((len(variants), model.spec.layers + 1))

    def hook(place: Place, name: str, x: Any) -> Any:
        """Keep mean and residual apart; a sub-layer that is left out changes neither."""
        depth = place.depth(name)
        if depth == 0:
            x = Apart.of(x)
        if depth == 0 or (name in AFTER and place.spec is not None):
            x = x.settled()
        if depth is not None:
            found[place.edit, depth] = x.log10_relative()
        return x

    edits = [variant.edit for variant in variants]
    run(model, [Tokens(words)], ApartField(), edits, hook)
    return list(found)
