"""Features of f(s) = 1 + s + ... + s^p / p!: with them, f(q . k) is an inner product.

By the multinomial theorem f(q . k) is the sum over monomials x^m of degree at most p of
q^m k^m / m!. There are C(a + p, p) of them in a variables, not a^p.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from segre.fields.interface import Array


def polynomial(scores: Array, order: int) -> Array:
    """f(s), entrywise, by Horner's rule; `scores` is not changed."""
    out = scores * (1 / order)
    for degree in range(order - 1, 0, -1):
        out += 1
        out *= scores
        out *= 1 / degree
    out += 1
    return out


def monomials(x: Array, order: int) -> Array:
    """All monomials of degree at most `order`: (..., tokens, a) to (..., tokens, features).

    Those of a degree are in order of their first variable. So x_i times those of the degree
    before that begin with x_i or later is one product of blocks.
    """
    batch, a = x.shape[:-1], x.shape[-1]
    rows = np.ascontiguousarray(np.moveaxis(x, -1, 0).reshape(a, -1))
    firsts, size = _layout(a, order)
    out = np.empty((size, rows.shape[1]), rows.dtype)
    out[0] = 1
    if order:
        out[1 : a + 1] = rows
    start, before = a + 1, 1  # where this degree begins, and the one before
    for degree in range(2, order + 1):
        begins, at = firsts[degree - 2], start
        for i in range(a):
            block = out[before + begins[i] : start]
            np.multiply(block, rows[i], out=out[at : at + len(block)])
            at += len(block)
        before, start = start, at
    return np.moveaxis(out.reshape(size, *batch), 0, -1)


@lru_cache(maxsize=64)
def _layout(a: int, order: int) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Where, in each degree from 1 on, the monomials that begin with x_i begin; how many in all."""
    firsts, size, total = [tuple(range(a))], a, 1 + a * (order > 0)
    for _ in range(2, order + 1):
        lengths = [size - begin for begin in firsts[-1]]
        begins = tuple(sum(lengths[:i]) for i in range(a))
        firsts.append(begins)
        size = sum(lengths)
        total += size
    return tuple(firsts), total


@lru_cache(maxsize=64)
def coefficients(a: int, order: int) -> Array:
    """1 / m! of each monomial, in the order of `monomials`."""
    firsts, size = _layout(a, order)
    out = np.ones(size)
    times, before, start = np.ones(a), 1, a + 1  # how often a monomial's first variable is in it
    for degree in range(2, order + 1):
        begins, again, at = firsts[degree - 2], [], start
        for i in range(a):
            block, count = out[before + begins[i] : start], times[begins[i] :].copy()
            same = (begins[i + 1] if i + 1 < a else len(times)) - begins[i]
            count[:same] += 1
            count[same:] = 1
            out[at : at + len(block)] = block / count
            again.append(count)
            at += len(block)
        times, before, start = np.concatenate(again), start, at
    return out
