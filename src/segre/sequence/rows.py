"""Attention by definition, some rows of the pattern at a time: never all of it.

A block of queries needs the keys within its reach only, so the same code is dense attention, where
reach is everything, and windows and local blocks in time linear in the number of tokens. Fed chunk
by chunk (`slide`), what is kept are the last keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from segre.attention.mechanism import Mechanism
from segre.attention.pattern import weighed
from segre.errors import SegreError
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.sequence.forms import banded, shared
from segre.sequence.running import power_table
from segre.sequence.taylor import polynomial

AT_ONCE = 1 << 18  # numbers of a block of rows
FEWEST, MOST = 16, 256  # its rows


def rows(
    how: Mechanism,
    rates: Array | None,
    q: Array,
    k: Array,
    v: Array,
    reach: bool,
    block: int | None = None,
) -> Array:
    """Mixed values (..., n, dv); with `reach`, keys out of reach are skipped."""
    heads, n, m = q.shape[:-2], q.shape[-2], k.shape[-2]
    count = int(np.prod(heads))
    if count > 1 and count * n * m > AT_ONCE:  # too much for one go: head by head
        out = np.empty((count, n, v.shape[-1]), q.dtype)
        flat = [x.reshape(count, *x.shape[-2:]) for x in (q, k, v)]
        for head in range(count):
            own = [x[head] for x in flat]
            rate = None if rates is None else rates[[head % len(rates)]]
            out[head] = rows(how, rate, own[0], own[1], own[2], reach, block)
        return out.reshape(*heads, n, -1)
    view = _Rows(how, rates, q, k, block or block_rows(how, m, reach), reach)
    columns = view.columns() if how.normalise == "both" else _Columns()
    out = np.empty((*heads, n, v.shape[-1]), q.dtype)
    for here, seen in view.chunks():
        weights = view.weights(here, seen, columns)
        part = out[..., here, :]
        np.matmul(weights, v[..., seen, :], out=part)
        if shared(how):
            part /= weights.sum(axis=-1, keepdims=True)
    if how.normalise == "centred":
        out -= v.mean(axis=-2, keepdims=True)
    return out


def block_rows(how: Mechanism, m: int, reach: bool) -> int:
    """How many rows at a time: about the window's width, or what fits into the cache."""
    if not (reach and banded(how)):
        return max(FEWEST, min(MOST, AT_ONCE // max(m, 1)))
    if how.local is not None:
        return how.local * -(-64 // how.local)
    assert how.window is not None
    return max(64, min(how.window, MOST))


@dataclass(frozen=True)
class _Columns:
    """Shifts and factors that make the weights of each key sum to one over the queries."""

    shift: Array | None = None  # taken from its scores
    factor: Array | None = None  # of its weights


@dataclass(frozen=True)
class _Rows:
    """The pattern of some heads, a chunk of its rows at a time."""

    how: Mechanism
    rates: Array | None
    q: Array
    k: Array
    size: int
    reach: bool

    def chunks(self) -> Iterator[tuple[slice, slice]]:
        """Some queries, and the keys that they may see."""
        how, n, m = self.how, self.q.shape[-2], self.k.shape[-2]
        for first in range(0, n, self.size):
            last = min(first + self.size, n)
            low, high = 0, last if how.causal else m
            if self.reach and how.window is not None:
                low, high = max(0, first - how.window), min(high, last + how.window)
            if self.reach and how.local is not None:
                low = max(low, first // how.local * how.local)
                high = min(high, -(-last // how.local) * how.local)
            yield slice(first, last), slice(low, high)

    def weights(self, here: slice, seen: slice, columns: _Columns) -> Array:
        """The weights of a chunk, before its rows are divided by their sums."""
        how, scores = self.how, self._scores(here, seen)
        if columns.shift is not None:
            scores -= columns.shift[..., None, seen]
        if how.exponential:
            self._hide(here, seen, scores, -np.inf)
            if shared(how):
                scores -= scores.max(axis=-1, keepdims=True)
            weights = np.exp(scores, out=scores)
        else:
            floats = Real(scores.dtype)
            weights = polynomial(scores, how.order) if how.series else weighed(floats, how, scores)
            self._hide(here, seen, weights, 0)
        if self.rates is not None:
            weights *= self._faded(here, seen)
        if columns.factor is not None:
            weights *= columns.factor[..., None, seen]
        return weights

    def columns(self) -> _Columns:
        """Sums over the queries of each key: of exponentials, relative to the largest."""
        exp = self.how.exponential
        total = np.zeros(self.k.shape[:-1], self.q.dtype)
        top = np.full(total.shape, -np.inf if exp else 0, self.q.dtype)
        for here, seen in self.chunks():
            if not exp:
                total[..., seen] += self.weights(here, seen, _Columns()).sum(axis=-2)
                continue
            scores = self._scores(here, seen)
            self._hide(here, seen, scores, -np.inf)
            before = top[..., seen]
            now = np.maximum(before, scores.max(axis=-2))
            base = np.where(np.isfinite(now), now, 0)
            weights = np.exp(scores - base[..., None, :])
            if self.rates is not None:
                weights *= self._faded(here, seen)
            total[..., seen] *= np.exp(before - base)
            total[..., seen] += weights.sum(axis=-2)
            top[..., seen] = now
        if not exp:
            return _Columns(factor=1 / total)
        return _Columns(top + np.log(abs(total)), np.sign(total) if (total < 0).any() else None)

    def _scores(self, here: slice, seen: slice) -> Array:
        return np.asarray(self.q[..., here, :] @ self.k[..., seen, :].swapaxes(-1, -2))

    def _hide(self, here: slice, seen: slice, scores: Array, value: float) -> None:
        """Write a value where a query of the chunk does not see a key of the chunk."""
        how = self.how
        if not how.masked:
            return
        if not banded(how):  # causal: what is before the chunk is seen
            scores = scores[..., here.start - seen.start :]
            seen = slice(here.start, seen.stop)
        i = np.arange(here.start, here.stop)[:, None]
        j = np.arange(seen.start, seen.stop)[None]
        hidden = j > i if how.causal else np.zeros((i.size, j.size), dtype=bool)
        if how.window is not None:
            hidden |= abs(i - j) > how.window
        if how.local is not None:
            hidden |= i // how.local != j // how.local
        np.copyto(scores, value, where=hidden)

    def _faded(self, here: slice, seen: slice) -> Array:
        """decay^(query - key) of a causal chunk; 1 where the key comes later."""
        assert self.rates is not None
        table = power_table(self.rates, here.stop - seen.start, self.q.dtype)
        later = np.ones((len(table), seen.stop - here.start - 1), self.q.dtype)
        backwards = np.concatenate([table[:, ::-1], later], axis=-1)
        width = seen.stop - seen.start
        windows = np.lib.stride_tricks.sliding_window_view(backwards, width, axis=-1)
        faded = windows[:, here.stop - here.start - 1 :: -1]
        return np.asarray(faded if self.q.ndim > 2 else faded[0])


@dataclass(frozen=True)
class Recent:
    """Keys and values that later queries may see: (..., tokens, a) and (..., tokens, dv)."""

    keys: Array
    values: Array

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.keys.size + self.values.size


def slide(
    how: Mechanism,
    rates: Array | None,
    q: Array,
    k: Array,
    v: Array,
    recent: Recent | None = None,
    block: int | None = None,
) -> tuple[Array, Recent]:
    """The outputs for the next tokens, and the recent keys and values after them."""
    before = 0
    if recent is not None:
        if not (_fits(recent.keys, k) and _fits(recent.values, v)):
            raise SegreError(
                f"state has keys {recent.keys.shape} and values {recent.values.shape}, but these "
                f"heads have {k.shape} and {v.shape}; start with a new state, or give the "
                "state of the same heads"
            )
        before = recent.keys.shape[-2]
        k = np.concatenate([recent.keys.astype(k.dtype), k], axis=-2)
        v = np.concatenate([recent.values.astype(v.dtype), v], axis=-2)
        # tokens before the chunk are queries too, so that distances are right; their rows are left
        q = np.concatenate([np.zeros((*q.shape[:-2], before, q.shape[-1]), q.dtype), q], axis=-2)
    out = rows(how, rates, q, k, v, True, block)[..., before:, :]
    kept = _kept(how, k.shape[-2])
    return out, Recent(
        k[..., k.shape[-2] - kept :, :].copy(), v[..., v.shape[-2] - kept :, :].copy()
    )


def _fits(old: Array, new: Array) -> bool:
    return old.shape[:-2] == new.shape[:-2] and old.shape[-1] == new.shape[-1]


def _kept(how: Mechanism, there: int) -> int:
    """How many of the tokens so far to keep; with local blocks, those of the unfinished one."""
    if how.local is not None:
        return there % how.local
    assert how.window is not None
    return min(how.window, there)
