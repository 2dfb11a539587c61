"""One layer on tokens whose mean and residual are kept apart, so that neither drowns the other.

X = 1 x^T + 2^e R, with the mean row x, the residual R of size about one and the exponent e. Rows of
a pattern P sum to one, so with q one of them, and r the row of R to which it gives most,

    P X = 1 (x + q^T R)^T + (P - 1 q^T) (R - 1 r^T),

where P - 1 q^T comes from differences of scores by expm1, also where a softmax is saturated, and
nothing large is the difference of numbers nearly equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, log10

import numpy as np

from segre.collapse.activations import activate, mean_slope
from segre.collapse.residual import Norm, norm
from segre.collapse.stack import Heads, Mlp, seen
from segre.fields.interface import Array

_LARGEST = 1000.0  # exponents of powers of two that are surely floats
_LOG2 = log(2)
_FAR = 30.0  # rows of P this far from q are subtracted as they are
ROUNDING = 2.0**-52
CERTAIN = 1e-8  # how large roundings may be in a layer, of its residual


@dataclass(frozen=True)
class Split:
    """Tokens 1 x^T + 2^e R, where R has mean 0; there may be batches in front.

    `known` is false from where on R was rounded away. This takes a saturated softmax: tokens of a
    cluster, alike to all digits of a float, attend only to each other, and what is left of their
    differences is all that is left of R.
    """

    mean: Array  # x: (d,)
    R: Array  # (n, d), the largest entry between 1/2 and 1
    exponent: Array  # e: a float that is whole, as it may have hundreds of digits
    known: Array

    @classmethod
    def of(cls, X: Array) -> Split:
        """The mean and the rest."""
        tokens = np.asarray(X, dtype=np.float64)
        mean = tokens.mean(axis=-2)
        batch = mean.shape[:-1]
        return _scaled(mean, tokens - mean[..., None, :], np.zeros(batch), np.ones(batch, bool))

    @property
    def scale(self) -> Array:
        """2^e as a float, which is 0 where it is too small; with axes for tokens and widths."""
        return _power_of_two(self.exponent, 2)

    @property
    def tokens(self) -> Array:
        """X, as far as floats can tell."""
        return np.asarray(self.mean[..., None, :] + self.R * self.scale)

    def log10_residual(self, kind: Norm = "composite") -> Array:
        """log10 of the norm of 2^e R; -inf where it is 0, nan where it is not known."""
        size = log10_of(norm(self.R, kind)) + self.exponent * log10(2)
        return np.where(self.known, size, np.nan)


def attend(heads: Heads, state: Split, skip: bool, causal: bool) -> Split:
    """One layer of attention."""
    out = _masked(heads, state) if causal else _unmasked(heads, state)
    common = out.common
    if heads.b_V is not None:
        common = common + (heads.b_V[..., None, :] @ heads.W_O).sum(axis=-3)[..., 0, :]
    if heads.b_O is not None:
        common = common + heads.b_O
    return _joined(state, replace(out, common=common), skip)


def transform(mlp: Mlp, state: Split, skip: bool) -> Split:
    """One MLP: differences of activations are mean slopes times differences of their inputs."""
    at = state.mean[..., None, :] @ mlp.W_1
    at = at if mlp.b_1 is None else at + mlp.b_1[..., None, :]
    step = state.R @ mlp.W_1
    slope = mean_slope(mlp.activation, at, step * state.scale)
    common = (activate(mlp.activation, at) @ mlp.W_2)[..., 0, :]
    common = common if mlp.b_2 is None else common + mlp.b_2
    noise = ROUNDING * (np.abs(slope) * (np.abs(state.R) @ np.abs(mlp.W_1))) @ np.abs(mlp.W_2)
    out = _Rows(common, (step * slope) @ mlp.W_2, noise, state.exponent)
    return _joined(state, out, skip)


@dataclass(frozen=True)
class _Rows:
    """Rows `common` + 2^exponent `own`, where roundings in `own` are about as large as `noise`."""

    common: Array  # (d,)
    own: Array  # (n, d)
    noise: Array  # (n, d)
    exponent: Array


def _scaled(mean: Array, R: Array, exponent: Array, known: Array) -> Split:
    """The same tokens, the largest entry of R brought between 1/2 and 1."""
    size = np.frexp(np.abs(R).max(axis=(-2, -1)))[1]
    return Split(mean, np.ldexp(R, -size[..., None, None]), np.asarray(exponent + size), known)


def _joined(before: Split, out: _Rows, skip: bool) -> Split:
    """What a layer gave, and the tokens before it if there is a skip."""
    middle = out.own.mean(axis=-2, keepdims=True)
    mean = out.common + (middle * _power_of_two(out.exponent, 2))[..., 0, :]
    R, noise, exponent = out.own - middle, out.noise, out.exponent
    if skip:
        shift = _power_of_two(exponent - before.exponent, 2)
        mean, R = before.mean + mean, before.R + R * shift
        noise, exponent = noise * shift, before.exponent
    lost = noise.max(axis=(-2, -1)) > CERTAIN * np.abs(R).max(axis=(-2, -1))
    return _scaled(mean, R, exponent, before.known & ~lost)


def _scores(heads: Heads, state: Split) -> tuple[Array, Array, Array]:
    """Scores (H, n, n) that are the same to a softmax; queries and keys (H, n, k) of R."""
    mean, R = state.mean[..., None, None, :], state.R[..., None, :, :]
    Q, K = R @ heads.W_Q, R @ heads.W_K
    middle = mean @ heads.W_Q
    middle = middle if heads.b_Q is None else middle + heads.b_Q[..., None, :]
    scale = state.scale[..., None]
    return heads.factor * (middle + Q * scale) @ K.mT * scale, Q, K


def _unmasked(heads: Heads, state: Split) -> _Rows:
    """q is what the first token sees."""
    scores, Q, K = _scores(heads, state)
    log_q = log_softmax(scores[..., :1, :])
    most = log_q.argmax(axis=-1, keepdims=True).mT

    def without(rows: Array) -> Array:
        """Rows minus the one to which q gives most."""
        return np.asarray(rows - np.take_along_axis(rows, most, axis=-2))

    R = np.broadcast_to(state.R[..., None, :, :], (*Q.shape[:-1], state.R.shape[-1]))
    Q, K, rest = Q - Q[..., :1, :], without(K), without(R)
    square = _power_of_two(2 * state.exponent, 3)
    others = np.arange(K.shape[-2]) != most
    D, m = differences(log_q, others, heads.factor * Q @ K.mT, square)
    size = np.abs(state.R).max(axis=-2, keepdims=True)[..., None, :, :]
    key, query = size @ np.abs(heads.W_K), size @ np.abs(heads.W_Q)
    loose = heads.factor * (np.abs(Q) @ key.mT + query @ np.abs(K).mT)  # E, if R is rounded
    q = np.exp(np.where(others, log_q, -np.inf) - _LOG2 * _wide(m, 3))
    P = np.where(others, np.maximum(q + D * square, 0), 0)
    free = P * np.maximum(1 - P * _power_of_two(m, 3), ROUNDING)
    noise = ROUNDING * (loose * free) @ (np.abs(rest) + ROUNDING * size)
    noise = noise + _noise(D, np.minimum(np.abs(D), free + q), scores, rest, size)
    seen_first = state.mean[..., None, None, :] + np.exp(log_q) @ R * state.scale[..., None]
    common = _written(heads, seen_first)[..., 0, :]
    own, noise = _written(heads, D @ rest), _written(_absolute(heads), noise)
    return _Rows(common, own, noise, 3 * state.exponent + m)


def differences(log_q: Array, others: Array, E: Array, square: Array) -> tuple[Array, Array]:
    """P - 1 q^T over 4^e 2^m, and m; P is the softmax of log q + 4^e E.

    E is 0 where q is largest. The `others` may all be tiny, as far as 2^m.
    """
    log_P = log_q + E * square
    m = least_power(np.where(others, np.maximum(log_q, log_P), -np.inf))
    rare = np.where(others, log_q, -np.inf) - _LOG2 * _wide(m, 3)
    gain = _gain(rare, E, square)
    total = gain.sum(axis=-1, keepdims=True)
    unit = square * _power_of_two(m, 3)
    D = (gain - np.exp(log_q) * total) / (1 + total * unit)
    far = log_P.max(axis=-1, keepdims=True) > _FAR
    if far.any():
        whole = np.exp(log_softmax(log_P)) - np.exp(log_q)
        D = np.where(far, whole / np.where(far, unit, 1), D)
    return D, m


def _noise(D: Array, free: Array, scores: Array, rest: Array, size: Array) -> Array:
    """What roundings do to D times the rest: in rows of this size, and in scores where free."""
    span = np.abs(scores).max(axis=-1, keepdims=True)
    return np.asarray(ROUNDING * (free * span @ np.abs(rest) + np.abs(D) @ (np.abs(rest) + size)))


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


def _masked(heads: Heads, state: Split) -> _Rows:
    """Behind a mask the first token sees only itself: its row is the one that is subtracted."""
    scores = _scores(heads, state)[0]
    logs = log_softmax(np.where(seen(scores.shape[-1]), scores, -np.inf))[..., 1:]
    m = least_power(logs)
    P = np.exp(logs - _LOG2 * _wide(m, 3))
    first = state.R[..., :1, :]
    rest = (state.R[..., 1:, :] - first)[..., None, :, :]
    common = _written(heads, (state.mean[..., None, :] + first * state.scale)[..., None, :, :])
    size = np.abs(state.R).max(axis=-2, keepdims=True)[..., None, :, :]
    free = P * np.maximum(1 - P * _power_of_two(m, 3), ROUNDING)
    noise = _noise(P, free, np.where(seen(scores.shape[-1]), scores, 0), rest, size)
    own, noise = _written(heads, P @ rest), _written(_absolute(heads), noise)
    return _Rows(common[..., 0, :], own, noise, state.exponent + m)


def _written(heads: Heads, rows: Array) -> Array:
    """Rows of each head (H, n, d) through its values and out, summed over the heads."""
    return np.asarray((rows @ heads.W_V @ heads.W_O).sum(axis=-3))


def _absolute(heads: Heads) -> Heads:
    return replace(heads, W_V=np.abs(heads.W_V), W_O=np.abs(heads.W_O))


def log_softmax(scores: Array) -> Array:
    """The logarithm of the softmax of each row."""
    rest = scores - scores.max(axis=-1, keepdims=True)
    return np.asarray(rest - np.log(np.exp(rest).sum(axis=-1, keepdims=True)))


def least_power(logs: Array) -> Array:
    """The exponent of the power of two next to the largest exponential; 0 if that is above 1."""
    size = logs.max(axis=(-3, -2, -1), initial=-np.inf)
    return np.where(np.isfinite(size), np.minimum(np.ceil(size / _LOG2), 0), 0)


def _wide(x: Array, axes: int) -> Array:
    """With some axes of length one after it."""
    return np.asarray(x).reshape(*x.shape, *[1] * axes)


def _power_of_two(exponent: Array, axes: int) -> Array:
    """2^exponent as a float (0 if it is too small), with some axes of length one after it."""
    return _wide(np.exp2(np.minimum(exponent, _LARGEST)), axes)


def log10_of(x: Array) -> Array:
    """log10, with -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log10(x))
