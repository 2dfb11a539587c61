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
from math import log10
from typing import Any

import numpy as np

from segre.checkpoint.model import Model
from segre.collapse.mixing import ROUNDING, Masked, Unmasked, power_of_two
from segre.collapse.residual import Norm, log10_of, norm
from segre.collapse.variants import Variant
from segre.fields import Real
from segre.fields.interface import Array
from segre.transformer.forward import AFTER, ATTENTION, MLP, Place, Tokens, run

_LEAST = 1e-290
CERTAIN = 1e-8  # how large roundings may be after a sub-layer, of its residual
_ALL = (-4, -3, -2, -1)  # axes of one input: heads, rows, tokens
_NEAR = 0.1  # shifts below are integrated over, those above are large enough to divide by
_TINY = 1e-3  # shifts for which two nodes do
_FEW, _SOME = (np.polynomial.legendre.leggauss(nodes) for nodes in (2, 4))


@dataclass(frozen=True, slots=True)
class Apart:
    """Columns `mean` + 2^exponent `rest`; roundings in `rest` are about as large as `noise`.

    Two axes of heads come before those of rows and tokens, and before them there may be inputs,
    each with an exponent of its own.
    """

    mean: Array  # (..., rows, 1)
    rest: Array  # (..., rows, tokens)
    exponent: Array  # floats that are whole, as they may have hundreds of digits
    noise: Array  # (..., rows, tokens); infinite from where the residual is not known

    @classmethod
    def of(cls, columns: Array, noise: float = ROUNDING) -> Apart:
        """Columns, split into mean and residual; `noise` is relative to their entries."""
        mean = columns.mean(axis=-1, keepdims=True)
        return _scaled(mean, columns - mean, np.zeros(()), noise * np.abs(columns))

    @classmethod
    def of_tokens(cls, X: Array) -> Apart:
        """Tokens in rows (..., n, d), which are exact."""
        return cls.of(np.asarray(X, dtype=np.float64).mT[..., None, None, :, :], 0.0)

    @property
    def step(self) -> Array:
        """The residual as floats, 0 where it is too small for them."""
        return np.asarray(self.rest * power_of_two(self.exponent))

    @property
    def whole(self) -> Array:
        """The columns, as far as floats can tell."""
        return np.asarray(self.mean + self.step)

    def shifted(self, column: Array) -> Apart:
        """The same with a column added to all."""
        return replace(self, mean=self.mean + column)

    def rearranged(self, place: Callable[[Array], Array]) -> Apart:
        """The same with rows in other places, or added up."""
        return Apart(place(self.mean), place(self.rest), self.exponent, place(self.noise))

    def mapped(self, one: Callable[[Array], Array], size: Callable[[Array], Array]) -> Apart:
        """Through a linear map; `size` is the map with the absolute values of its entries."""
        loose = self.noise + ROUNDING * np.abs(self.rest)
        return Apart(one(self.mean), one(self.rest), self.exponent, size(loose))

    def centred(self) -> Apart:
        """The same, where the mean is that of all columns."""
        middle = self.rest.mean(axis=-1, keepdims=True)
        mean = self.mean + middle * power_of_two(self.exponent)
        return replace(self, mean=mean, rest=self.rest - middle)

    def judged(self) -> Apart:
        """The same after a sub-layer, without noise if that is small, or else not known."""
        fine = _largest(self.noise) <= CERTAIN * _largest(np.abs(self.rest))
        noise = np.broadcast_to(np.where(fine, 0.0, np.inf), self.rest.shape)
        return _scaled(self.mean, self.rest, self.exponent, noise)

    @property
    def known(self) -> Array:
        """Whether the residual of each input is known.

        It is lost where a softmax is saturated: tokens of a cluster, alike to all digits of a
        float, attend only to each other, and what is left of their differences is all there is.
        """
        return np.asarray(~self.noise.any(axis=_ALL))

    def log10_residual(self, kind: Norm = "composite") -> Array:
        """log10 of the norm of each residual; -inf where it is 0, nan where it is not known."""
        size = log10_of(norm(self.rest[..., 0, 0, :, :], kind))
        size = size + self.exponent[..., 0, 0, 0, 0] * log10(2)
        return np.where(self.known, size, np.nan)

    def log10_relative(self) -> Array:
        """log10 of the relative residuals."""
        return np.asarray(self.log10_residual() - log10_of(norm(self.whole[..., 0, 0, :, :])))


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
                return x.shifted(y)
            y = Apart.of(y)
        e = np.maximum(x.exponent, y.exponent)
        one, two = np.exp2(x.exponent - e), np.exp2(y.exponent - e)
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
        e = np.maximum(x.exponent, y.exponent)
        one, two = np.exp2(x.exponent - e), np.exp2(y.exponent - e)
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
            common, own, noise, exponent = y.mixed(x.rest, x.noise, power_of_two(x.exponent))
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
        return Unmasked.of(scores.pairs, scores.factor)

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
        return _along(x, cdf, partial(mean_over, self.pdf, cdf))

    def sqrt(self, x: Any) -> Any:
        """Square root."""
        return _along(x, np.sqrt, lambda a, h: 1 / (np.sqrt(a) + np.sqrt(a + h)))

    def reciprocal(self, x: Any) -> Any:
        """Entrywise inverse."""
        return _along(x, np.reciprocal, lambda a, h: -1 / (a * (a + h)))

    def relu(self, x: Any) -> Any:
        """The larger of x and 0."""
        return _along(x, super().relu, _kept)


def _along(
    x: Apart, function: Callable[[Array], Array], slope: Callable[[Array, Array], Array]
) -> Apart:
    """A function of one variable; `slope` is its difference over a step, by the step."""
    mean = slope(x.mean, x.step)
    noise = np.abs(mean) * (x.noise + ROUNDING * np.abs(x.rest))
    return _scaled(function(x.mean), x.rest * mean, x.exponent, noise)


def mean_over(
    slope: Callable[[Array], Array], function: Callable[[Array], Array], z: Array, shift: Array
) -> Array:
    """(function(z + shift) - function(z)) / shift, right also where the shift is tiny or 0.

    By Gauss-Legendre quadrature of the slope where the shift is small, where that is accurate to
    rounding.
    """
    z, shift = np.broadcast_arrays(z, shift)
    near = np.abs(shift) < _NEAR
    nodes, shares = _FEW if (np.abs(shift) < _TINY).all() else _SOME
    within = np.where(near, shift, 0)
    mean = sum(
        share / 2 * slope(z + within * (node + 1) / 2)
        for node, share in zip(nodes, shares, strict=True)
    )
    if near.all():
        return np.asarray(mean)
    far = (function(z + shift) - function(z)) / np.where(near, 1, shift)
    return np.where(near, mean, far)


def _kept(z: Array, shift: Array) -> Array:
    """The share of the way from z to z + shift that is above 0."""
    ends = z, z + shift
    low, high = np.minimum(*ends), np.maximum(*ends)
    above = np.maximum(high, 0) - np.maximum(low, 0)
    return np.where(high > low, above / np.where(high > low, high - low, 1), z > 0)


def _largest(x: Array) -> Array:
    """The largest entry of each input."""
    return np.asarray(x.max(axis=_ALL, keepdims=True))


def _scaled(mean: Array, rest: Array, exponent: Array, noise: Array) -> Apart:
    """The same columns, the largest entry of the residual brought between 1/2 and 1."""
    size = np.frexp(_largest(np.abs(rest)))[1]
    return Apart(mean, np.ldexp(rest, -size), exponent + size, np.ldexp(noise, -size))


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
            x = x.centred().judged()
        if depth is not None:
            lost = norm(x.whole[0, 0, 0]) < _LEAST  # digits
            found[place.edit, depth] = np.nan if lost else x.log10_relative()[0]
        return x

    edits = [variant.edit for variant in variants]
    run(model, [Tokens(words)], ApartField(), edits, hook)
    return list(found)
