"""Attention patterns that mix residuals without letting the mean in.

A pattern has columns that sum to one (row = key, column = query), so that what it does to columns
x + r_j is x + sum_j P_ji r_j. Of that, what is common to all queries is kept apart again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from segre.collapse.split import ROUNDING, differences, least_power, log_softmax
from segre.fields.interface import Array

Mixed = tuple[Array, Array, Array, float]  # common column, own residuals, their noise, exponent
_LOG2 = log(2)


@dataclass(frozen=True, slots=True)
class Masked:
    """A pattern as it is: what is subtracted is the first token, which a mask lets see itself."""

    P: Array  # over 2^power, without the first key: (..., keys - 1, queries)
    free: Array  # how much of P a rounding of the scores can move
    power: float

    @classmethod
    def of(cls, scores: Array, used: Array | None) -> Masked:
        """The pattern of scores (..., keys, queries), of those entries that are used."""
        shown = np.ones(scores.shape[-2:], dtype=bool) if used is None else used.astype(bool)
        span = np.abs(np.where(shown, scores, 0)).max(axis=-2, keepdims=True)
        logs = np.where(shown, scores, -np.inf)
        logs = log_softmax(logs.swapaxes(-1, -2)).swapaxes(-1, -2)[..., 1:, :]
        power = float(least_power(logs.reshape(-1, *logs.shape[-2:])))
        P = np.exp(logs - _LOG2 * power)
        free = P * np.maximum(1 - P * np.exp2(power), ROUNDING)
        return cls(P, free * span, power)

    def mixed(self, R: Array, noise: Array, scale: float) -> Mixed:
        """What it makes of residuals R (..., rows, tokens) that are to be multiplied by `scale`."""
        first = R[..., :1]
        rest, size = R[..., 1:] - first, np.abs(R).max(axis=-1, keepdims=True)
        loose = (noise[..., 1:] + noise[..., :1]) @ self.P
        loose = loose + ROUNDING * (np.abs(rest) @ self.free + (np.abs(rest) + size) @ self.P)
        return first * scale, rest @ self.P, loose, self.power


@dataclass(frozen=True, slots=True)
class Unmasked:
    """A pattern P as q 1^T + 2^power D, where q is what the first token sees.

    D comes from differences of scores (`split`): it is accurate when all columns are nearly equal.
    """

    D: Array  # (H, queries, keys)
    q: Array  # (H, 1, keys)
    most: Array  # (H, 1, 1): the key to which q gives most
    loose: Array  # how far roundings can move D
    move: Array  # and with it what is rounded in the values
    power: float
    heads: tuple[int, ...]  # axes of heads

    @classmethod
    def of(cls, pairs: Sequence[tuple[Array, ...]], factor: float) -> Unmasked:
        """Of keys and queries in rows: residuals, noise, the queries' mean, and exponents."""
        e_K = float(max(pair[5] for pair in pairs))
        e_Q = float(max(pair[6] for pair in pairs))
        heads = np.broadcast_shapes(*(pair[i].shape[:-2] for pair in pairs for i in (0, 3)))

        def joined(place: int, scale: int | None, top: float) -> Array:
            """All pairs side by side, multiplied to a common exponent, for every head."""
            parts = []
            for pair in pairs:
                part = pair[place] * (1.0 if scale is None else np.exp2(pair[scale] - top))
                parts.append(np.broadcast_to(part, (*heads, *part.shape[-2:])))
            both = np.concatenate(parts, axis=-1)
            return both.reshape(-1, *both.shape[-2:])

        K, N_K = joined(0, 5, e_K), joined(1, 5, e_K)
        middle = factor * joined(2, None, 0)
        Q, N_Q = factor * joined(3, 6, e_Q), abs(factor) * joined(4, 6, e_Q)
        scores = (middle + Q * np.exp2(min(e_Q, 1000.0))) @ K.mT * np.exp2(min(e_K, 1000.0))
        log_q = log_softmax(scores[..., :1, :])
        most = log_q.argmax(axis=-1, keepdims=True)
        others = np.arange(K.shape[-2]) != most
        Q, K = Q - Q[..., :1, :], K - np.take_along_axis(K, most, axis=-2)
        square = np.full((1, 1, 1), np.exp2(min(e_K + e_Q, 1000.0)))
        D, m = differences(log_q, others, Q @ K.mT, square)
        power = float(m)
        loose = np.abs(Q) @ N_K.mT + N_Q @ np.abs(K).mT  # of the products that D is made of
        q = np.exp(np.where(others, log_q, -np.inf) - _LOG2 * power)
        P = np.where(others, np.maximum(q + D * square, 0), 0)
        free = P * np.maximum(1 - P * np.exp2(power), ROUNDING)
        span = np.abs(scores).max(axis=-1, keepdims=True)
        move = ROUNDING * np.minimum(np.abs(D), free + q) * span
        return cls(D, np.exp(log_q), most, loose * free, move, e_K + e_Q + power, heads)

    def mixed(self, R: Array, noise: Array, scale: float) -> Mixed:
        """What it makes of residuals R (..., rows, tokens) that are to be multiplied by `scale`."""
        shape = (*self.heads, *R.shape[-2:])
        rows, N = (
            np.broadcast_to(each, shape).reshape(-1, *R.shape[-2:]).mT for each in (R, noise)
        )
        rest = rows - np.take_along_axis(rows, self.most, axis=-2)
        size = np.abs(rows).max(axis=-2, keepdims=True)
        loose = self.loose @ (np.abs(rest) + ROUNDING * size) + self.move @ np.abs(rest)
        loose = loose + np.abs(self.D) @ (
            N + np.take_along_axis(N, self.most, axis=-2) + ROUNDING * (np.abs(rest) + size)
        )

        def columns(found: Array) -> Array:
            return found.mT.reshape(*self.heads, R.shape[-2], -1)

        return columns(self.q @ rows) * scale, columns(self.D @ rest), columns(loose), self.power
