"""Attention in linear time: a product of features, with a running state if it is causal.

Attention to all keys is two products with the features between them (`factored`). Causal attention
is dense inside a block, with a running state between blocks (`advance`).

For weights f(q_i . k_j) decay^(i-j) with f(q . k) = phi(q) . phi(k), all that later queries need of
the tokens before them is the sum of decay^(n-j) phi(k_j) v_j^T. Powers of the decay are taken of
distances inside a block only, so they never overflow, and where they underflow the term is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.attention.mechanism import Mechanism
from segre.errors import SegreError
from segre.fields.interface import Array
from segre.sequence.forms import feature_count, shared
from segre.sequence.taylor import coefficients, monomials, polynomial

AT_ONCE = 1 << 16  # numbers of a group of blocks: small enough for the cache
FEATURES = 1 << 20  # that are made at a time


@dataclass(frozen=True)
class State:
    """The state after the tokens so far: (..., features, dv), or dv + 1 if rows are normalised.

    The last column of a normalised state is the sum of the features of keys.
    """

    sums: Array

    @property
    def size(self) -> int:
        """Number of entries, independent of the number of tokens."""
        return self.sums.size


def default_block(how: Mechanism, a: int, dv: int) -> int:
    """The default block size: larger if there are many features."""
    if how.series:
        return 128
    return 32 if a * dv <= 1 << 14 else 64


def start(how: Mechanism, heads: tuple[int, ...], a: int, dv: int, dtype: np.dtype) -> State:
    """The state before the first token."""
    return State(np.zeros((*heads, feature_count(how, a), dv + shared(how)), dtype))


def advance(
    how: Mechanism,
    rates: Array | None,
    q: Array,
    k: Array,
    v: Array,
    state: State | None = None,
    block: int | None = None,
) -> tuple[Array, State]:
    """The next tokens of all heads: (..., n, dv), and the state after them.

    `rates` are the decays of the heads, if there are any.

    Chunks that are fed one by one, each with the state after the one before, give what one call
    gives.
    """
    a, dv, n = q.shape[-1], v.shape[-1], q.shape[-2]
    fresh = start(how, q.shape[:-2], a, dv, q.dtype)
    if state is None:
        state = fresh
    elif state.sums.shape != fresh.sums.shape:
        raise SegreError(
            f"state has shape {state.sums.shape}, but these heads need {fresh.sums.shape}; start "
            "with a new state, or give the state of the same mechanism and sizes"
        )
    if shared(how):
        v = np.concatenate([v, np.ones((*v.shape[:-1], 1), v.dtype)], -1)
    size = min(block or default_block(how, a, dv), n)
    out = np.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    pace = _Pace.of(rates, q, size)
    sums = state.sums.astype(q.dtype)
    many = int(np.prod(q.shape[:-2])) * size * (size + 2 * (sums.shape[-2] > a) * sums.shape[-2])
    span = size * max(1, AT_ONCE // many)
    even = n - n % size
    for first in range(0, even, span):
        here = slice(first, min(first + span, even))
        sums = _group(how, pace, q, k, v, out, here, sums)
    if even < n:
        pace = _Pace.of(rates, q, n - even)
        sums = _group(how, pace, q, k, v, out, slice(even, n), sums)
    if shared(how):
        out = out[..., :-1] / out[..., -1:]
    return out, State(sums)


@dataclass(frozen=True)
class _Pace:
    """Powers of the decay inside a block, of each head: axes (heads, block, row, column)."""

    size: int
    inside: Array  # decay^(i - j) where j <= i, else 0
    read: Array | None  # decay^(i + 1): the state, seen from token i; None if there is no decay
    write: Array | None  # decay^(size - 1 - j): token j, seen from the end
    whole: Array | None  # decay^size

    @classmethod
    def of(cls, rates: Array | None, q: Array, size: int) -> _Pace:
        dtype = q.dtype
        if rates is None:
            return cls(size, np.tri(size, dtype=dtype), None, None, None)
        powers = power_table(rates, size + 1, dtype)
        gaps = np.subtract.outer(np.arange(size), np.arange(size))
        inside = np.where(gaps >= 0, powers[:, np.maximum(gaps, 0)], 0)[:, None]
        read = powers[:, 1:][:, None, :, None]
        write = powers[:, size - 1 :: -1][:, None, :, None]
        whole = powers[:, size, None, None]
        if q.ndim == 2:
            inside, read, write, whole = (x[0] for x in (inside, read, write, whole))
        return cls(size, inside, read, write, whole)


def power_table(rates: Array, count: int, dtype: np.dtype) -> Array:
    """rate^0, ..., rate^(count-1) of each rate; what is below the smallest normal float is 0."""
    with np.errstate(under="ignore", over="ignore"):
        powers = np.power(rates[:, None], np.arange(count))
        powers[abs(powers) < np.finfo(dtype).tiny] = 0
        return powers.astype(dtype)


def _group(
    how: Mechanism, pace: _Pace, q: Array, k: Array, v: Array, out: Array, here: slice, sums: Array
) -> Array:
    """Write the rows `here` of the output, blocks side by side; the state after them."""
    Q, K, V, to = (_blocks(x, here, pace.size) for x in (q, k, v, out))
    inner = Q @ K.swapaxes(-1, -2)
    if how.series:
        inner = polynomial(inner, how.order)
        scale = coefficients(q.shape[-1], how.order).astype(q.dtype)[:, None]
        Q, K = monomials(Q, how.order), monomials(K, how.order)
    inner *= pace.inside
    np.matmul(inner, V, out=to)
    written = (K if pace.write is None else K * pace.write).swapaxes(-1, -2) @ V
    if how.series:
        written *= scale
    states = np.empty_like(written)
    for number in range(written.shape[-3]):
        states[..., number, :, :] = sums
        sums = written[..., number, :, :] + (sums if pace.whole is None else pace.whole * sums)
    older = Q @ states
    if pace.read is not None:
        older *= pace.read
    to += older
    return sums


def _blocks(x: Array, here: slice, size: int) -> Array:
    """A view (..., blocks, size, width) of some tokens."""
    part = x[..., here, :]
    return part.reshape(*x.shape[:-2], -1, size, x.shape[-1])


def factored(how: Mechanism, q: Array, k: Array, v: Array) -> Array:
    """phi(Q) (phi(K)^T V), each row divided by phi(Q) (phi(K)^T 1) if it is shared.

    Features are made for some tokens at a time.
    """
    if shared(how):
        v = np.concatenate([v, np.ones((*v.shape[:-1], 1), v.dtype)], -1)
    plain = how.linear
    out = q @ (k.swapaxes(-1, -2) @ v) if plain else _taylor(how.order, q, k, v)
    return np.asarray(out[..., :-1] / out[..., -1:] if shared(how) else out)


def _taylor(order: int, q: Array, k: Array, v: Array) -> Array:
    scale = coefficients(q.shape[-1], order).astype(q.dtype)[:, None]
    heads = int(np.prod(q.shape[:-2]))
    step = tokens_at_once(heads, len(scale))
    sums = np.zeros((*q.shape[:-2], len(scale), v.shape[-1]), q.dtype)
    for first in range(0, k.shape[-2], step):
        here = slice(first, first + step)
        sums += monomials(k[..., here, :], order).swapaxes(-1, -2) @ v[..., here, :]
    sums *= scale
    out = np.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    for first in range(0, q.shape[-2], step):
        here = slice(first, first + step)
        np.matmul(monomials(q[..., here, :], order), sums, out=out[..., here, :])
    return out


def tokens_at_once(heads: int, features: int) -> int:
    """The number of tokens whose features are made at a time."""
    return max(32, FEATURES // (heads * features))
