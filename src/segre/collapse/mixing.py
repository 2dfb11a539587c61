"""Attention patterns that mix residuals without letting the mean in.

A pattern has columns that sum to one (row = key, column = query), so that what it does to columns
x + r_j is x + sum_j P_ji r_j. Of that, what is common to all queries is kept apart again: with q
one of the columns, and r the residual to which it gives most,

    sum_j P_ji r_j = sum_j q_j r_j + sum_j (P_ji - q_j) (r_j - r),

where P - q comes from differences of scores by expm1, also where a softmax is saturated, and
nothing large is the difference of numbers nearly equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import log
from typing import TYPE_CHECKING

import numpy as np

from segre.fields.interface import Array

if TYPE_CHECKING:
    from segre.collapse.apart import Apart

Mixed = tuple[Array, Array, Array, Array]  # common column, own residuals, their noise, exponent
ROUNDING = 2.0**-52
_LARGEST = 1000.0  # exponents of powers of two that are surely floats
_LOG2 = log(2)
_FAR = 30.0  # columns of P this far from q are subtracted as they are


@dataclass(frozen=True, slots=True)
class Masked:
    """A pattern as it is: what is subtracted is the first token, which a mask lets see itself."""

    P: Array  # over 2^power, without the first key: (..., keys - 1, queries)
    free: Array  # how much of P a rounding of the scores can move
    power: Array

    @classmethod
    def of(cls, scores: Array, used: Array | None) -> Masked:
        """The pattern of scores (..., keys, queries), of those entries that are used."""
        shown = np.ones(scores.shape[-2:], dtype=bool) if used is None else used.astype(bool)
        span = np.abs(np.where(shown, scores, 0)).max(axis=-2, keepdims=True)
        logs = np.where(shown, scores, -np.inf)
        logs = log_softmax(logs.swapaxes(-1, -2)).swapaxes(-1, -2)[..., 1:, :]
        power = least_power(logs, (-4, -3, -2, -1))
        P = np.exp(logs - _LOG2 * power)
        free = P * np.maximum(1 - P * np.exp2(power), ROUNDING)
        return cls(P, free * span, power)

    def mixed(self, R: Array, noise: Array, scale: Array) -> Mixed:
        """What it makes of residuals R (..., rows, tokens) that are to be multiplied by `scale`."""
        first = R[..., :1]
        rest, size = R[..., 1:] - first, np.abs(R).max(axis=-1, keepdims=True)
        loose = (noise[..., 1:] + noise[..., :1]) @ self.P
        loose = loose + ROUNDING * (np.abs(rest) @ self.free + (np.abs(rest) + size) @ self.P)
        return first * scale, rest @ self.P, loose, self.power


@dataclass(frozen=True, slots=True)
class Unmasked:
    """A pattern P as q 1^T + 2^power D, where q is what the first token sees.

    D comes from `differences`: it is accurate when all columns are nearly equal.
    """

    D: Array  # (..., H, queries, keys)
    q: Array  # (..., H, 1, keys)
    most: Array  # (..., H, 1, 1): the key to which q gives most
    loose: Array  # how far roundings can move D
    move: Array  # and with it what is rounded in the values
    power: Array
    heads: tuple[int, ...]  # axes of inputs and heads

    @classmethod
    def of(cls, pairs: Sequence[tuple[Apart, Apart]], factor: float) -> Unmasked:
        """Of keys and queries, several of which are side by side."""
        every = list(zip(*pairs, strict=True))
        heads = np.broadcast_shapes(*(x.rest.shape[:-2] for several in every for x in several))

        def joined(parts: Iterable[Array]) -> Array:
            """In rows, for every head."""
            rows = [np.broadcast_to(x.mT, (*heads, *x.mT.shape[-2:])) for x in parts]
            return _side_by_side(np.concatenate(rows, axis=-1), heads)

        def scaled(several: Sequence[Apart]) -> tuple[Array, Array, Array]:
            """Residuals and their noise, multiplied to a common exponent."""
            top = reduce(np.maximum, (x.exponent for x in several))
            powers = [np.exp2(x.exponent - top) for x in several]
            pairs = [(x.rest * y, x.noise * y) for x, y in zip(several, powers, strict=True)]
            rest, noise = (joined(parts) for parts in zip(*pairs, strict=True))
            return rest, noise, top[..., 0]

        (K, N_K, e_K), (Q, N_Q, e_Q) = map(scaled, every)
        middle = factor * joined(x.mean for x in every[1])
        Q, N_Q = factor * Q, abs(factor) * N_Q
        scores = (middle + Q * power_of_two(e_Q)) @ K.mT * power_of_two(e_K)
        log_q = log_softmax(scores[..., :1, :])
        most = log_q.argmax(axis=-1, keepdims=True)
        others = np.arange(K.shape[-2]) != most
        Q, K = Q - Q[..., :1, :], K - np.take_along_axis(K, most, axis=-2)
        square = power_of_two(e_K + e_Q)
        D, power = differences(log_q, others, Q @ K.mT, square)
        loose = np.abs(Q) @ N_K.mT + N_Q @ np.abs(K).mT  # of the products that D is made of
        q = np.exp(np.where(others, log_q, -np.inf) - _LOG2 * power)
        P = np.where(others, np.maximum(q + D * square, 0), 0)
        free = P * np.maximum(1 - P * np.exp2(power), ROUNDING)
        span = np.abs(scores).max(axis=-1, keepdims=True)
        move = ROUNDING * np.minimum(np.abs(D), free + q) * span
        exponent = (e_K + e_Q + power)[..., None]
        return cls(D, np.exp(log_q), most, loose * free, move, exponent, heads)

    def mixed(self, R: Array, noise: Array, scale: Array) -> Mixed:
        """What it makes of residuals R (..., rows, tokens) that are to be multiplied by `scale`."""
        shape = (*self.heads, *R.shape[-2:])
        rows, N = (_side_by_side(np.broadcast_to(x, shape), self.heads).mT for x in (R, noise))
        rest = rows - np.take_along_axis(rows, self.most, axis=-2)
        size = np.abs(rows).max(axis=-2, keepdims=True)
        loose = self.loose @ (np.abs(rest) + ROUNDING * size) + self.move @ np.abs(rest)
        loose = loose + np.abs(self.D) @ (
            N + np.take_along_axis(N, self.most, axis=-2) + ROUNDING * (np.abs(rest) + size)
        )

        def columns(found: Array) -> Array:
            return found.mT.reshape(*self.heads, R.shape[-2], -1)

        return columns(self.q @ rows) * scale, columns(self.D @ rest), columns(loose), self.power


def _side_by_side(x: Array, heads: tuple[int, ...]) -> Array:
    """One axis of heads instead of two: (..., H, rows, columns)."""
    return x.reshape(*heads[:-2], -1, *x.shape[-2:])


def differences(log_q: Array, others: Array, E: Array, square: Array) -> tuple[Array, Array]:
    """P - 1 q^T over 4^e 2^m, and m; P is the softmax of log q + 4^e E.

    E is 0 where q is largest. The `others` may all be tiny, as far as 2^m.
    """
    log_P = log_q + E * square
    m = least_power(np.where(others, np.maximum(log_q, log_P), -np.inf), (-3, -2, -1))
    gain = _gain(np.where(others, log_q, -np.inf) - _LOG2 * m, E, square)
    total = gain.sum(axis=-1, keepdims=True)
    unit = square * power_of_two(m)
    D = (gain - np.exp(log_q) * total) / (1 + total * unit)
    far = log_P.max(axis=-1, keepdims=True) > _FAR
    if far.any():
        whole = np.exp(log_softmax(log_P)) - np.exp(log_q)
        D = np.where(far, whole / np.where(far, unit, 1), D)
    return D, m


def _gain(log_q: Array, E: Array, square: Array) -> Array:
    """q (exp(4^e E) - 1), over 4^e."""
    true = E * square
    small = np.abs(true) < 1
    there = small & (true != 0)
    near = np.where(there, true, 1)
    low = np.exp(log_q) * E * np.where(there, np.expm1(near) / near, 1)
    if small.all():
        return np.asarray(low)
    high = np.exp(np.minimum(log_q + true, _LARGEST * _LOG2)) - np.exp(log_q)
    return np.where(small, low, high / np.where(small, 1, square))


def log_softmax(scores: Array) -> Array:
    """The logarithm of the softmax of each row."""
    rest = scores - scores.max(axis=-1, keepdims=True)
    return np.asarray(rest - np.log(np.exp(rest).sum(axis=-1, keepdims=True)))


def least_power(logs: Array, axes: tuple[int, ...]) -> Array:
    """The exponent of the power of two next to the largest exponential; 0 if that is above 1."""
    size = logs.max(axis=axes, keepdims=True, initial=-np.inf)
    return np.where(np.isfinite(size), np.minimum(np.ceil(size / _LOG2), 0), 0)


def power_of_two(exponent: Array) -> Array:
    """2^exponent as a float, which is 0 where it is too small."""
    return np.asarray(np.exp2(np.minimum(exponent, _LARGEST)))
