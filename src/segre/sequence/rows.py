"""Attention by definition, some rows of the pattern at a time: never all of it.

A block of queries needs the keys within its reach only, so the same code is dense attention, where
reach is everything, and windows and local blocks in time linear in the number of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from segre.fields.interface import Array
from segre.sequence.mixing import Mixing
from segre.sequence.running import power_table
from segre.sequence.taylor import polynomial

AT_ONCE = 1 << 18  # numbers of a block of rows
FEWEST, MOST = 16, 256  # its rows


def rows(how: Mixing, q: Array, k: Array, v: Array, reach: bool, block: int | None = None) -> Array:
    """Mixed values (..., n, dv); with `reach`, keys out of reach are not looked at."""
    heads, n, m = q.shape[:-2], q.shape[-2], k.shape[-2]
    count = int(np.prod(heads))
    if count > 1 and count * n * m > AT_ONCE:  # too much for one go: head by head
        out = np.empty((count, n, v.shape[-1]), q.dtype)
        flat = [x.reshape(count, *x.shape[-2:]) for x in (q, k, v)]
        for head in range(count):
            own = [x[head] for x in flat]
            out[head] = rows(_of_head(how, head), own[0], own[1], own[2], reach, block)
        return out.reshape(*heads, n, -1)
    size = block or block_rows(how, m, reach)
    shift = _column_shift(how, q, k, size, reach) if how.share == "queries-keys" else None
    out = np.empty((*heads, n, v.shape[-1]), q.dtype)
    for here, seen in _chunks(how, n, m, size, reach):
        weights, total = _weights(how, q, k, here, seen, shift)
        part = out[..., here, :]
        np.matmul(weights, v[..., seen, :], out=part)
        if total is not None:
            part /= total
    if how.share == "keys-centred":
        out -= v.mean(axis=-2, keepdims=True)
    return out


def block_rows(how: Mixing, m: int, reach: bool) -> int:
    """How many rows at a time: about the window's width, or what fits into the cache."""
    if not (reach and how.banded):
        return max(FEWEST, min(MOST, AT_ONCE // max(m, 1)))
    if how.local is not None:
        return how.local * -(-64 // how.local)
    assert how.window is not None
    return max(64, min(how.window, MOST))


def _of_head(how: Mixing, head: int) -> Mixing:
    """The same for one head of several, which may have decays of their own."""
    if len(how.decays) == 1:
        return how
    return replace(how, decay=how.decays[head % len(how.decays)])


def _chunks(how: Mixing, n: int, m: int, size: int, reach: bool) -> Iterator[tuple[slice, slice]]:
    """Some queries, and the keys that they may see."""
    for first in range(0, n, size):
        last = min(first + size, n)
        low, high = 0, m
        if how.causal:
            high = last
        if reach and how.window is not None:
            low, high = max(0, first - how.window), min(high, last + how.window)
        if reach and how.local is not None:
            low = max(low, first // how.local * how.local)
            high = min(high, -(-last // how.local) * how.local)
        yield slice(first, last), slice(low, high)


def _weights(
    how: Mixing, q: Array, k: Array, here: slice, seen: slice, shift: Array | None
) -> tuple[Array, Array | None]:
    """The weights of a chunk before the division, and what to divide its rows by."""
    scores = np.asarray(q[..., here, :] @ k[..., seen, :].swapaxes(-1, -2))
    if shift is not None:
        scores -= shift[..., None, seen]
    if how.weigh == "exp":
        _hide(how, here, seen, scores, -np.inf)
        if how.shared:
            scores -= scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores, out=scores)
    else:
        weights = scores if how.weigh == "identity" else polynomial(scores, how.order)
        _hide(how, here, seen, weights, 0)
    if how.decays != (1.0,):
        faded = _faded(how, here, seen, q.dtype)
        weights *= faded if q.ndim > 2 else faded[0]
    return weights, weights.sum(axis=-1, keepdims=True) if how.shared else None


def _hide(how: Mixing, here: slice, seen: slice, scores: Array, value: float) -> None:
    """Write a value where a query of the chunk does not see a key of the chunk."""
    if not how.restricted:
        return
    if not how.banded:  # causal: what is before the chunk is seen
        skipped = min(here.start, seen.stop)
        seen, scores = slice(skipped, seen.stop), scores[..., skipped:]
    i = np.arange(here.start, here.stop)[:, None]
    j = np.arange(seen.start, seen.stop)[None]
    hidden = j > i if how.causal else np.zeros((i.size, j.size), dtype=bool)
    if how.window is not None:
        hidden |= abs(i - j) > how.window
    if how.local is not None:
        hidden |= i // how.local != j // how.local
    np.copyto(scores, value, where=hidden)


def _faded(how: Mixing, here: slice, seen: slice, dtype: np.dtype) -> Array:
    """decay^(query - key) for each head of a causal chunk; 1 where the key comes later."""
    table = power_table(np.array(how.decays), here.stop - seen.start, dtype)
    later = np.ones((len(table), seen.stop - here.start - 1), dtype)
    backwards = np.concatenate([table[:, ::-1], later], axis=-1)
    windows = np.lib.stride_tricks.sliding_window_view(backwards, seen.stop - seen.start, axis=-1)
    return np.asarray(windows[:, here.stop - here.start - 1 :: -1])


def _column_shift(how: Mixing, q: Array, k: Array, size: int, reach: bool) -> Array:
    """The logarithm of each key's sum over queries: less that, rows are an ordinary softmax."""
    n, m = q.shape[-2], k.shape[-2]
    top = np.full((*q.shape[:-2], m), -np.inf, q.dtype)
    total = np.zeros_like(top)
    for here, seen in _chunks(how, n, m, size, reach):
        scores = np.asarray(q[..., here, :] @ k[..., seen, :].swapaxes(-1, -2))
        _hide(how, here, seen, scores, -np.inf)
        before = top[..., seen]
        now = np.maximum(before, scores.max(axis=-2))
        safe = np.where(np.isfinite(now), now, 0)
        with np.errstate(invalid="ignore"):
            total[..., seen] *= np.exp(np.where(np.isfinite(before), before - safe, 0))
        total[..., seen] += np.exp(scores - safe[..., None, :]).sum(axis=-2)
        top[..., seen] = now
    return np.asarray(top + np.log(total))
