"""Attention to all keys in linear time: two products with a feature map between them."""

from __future__ import annotations

import numpy as np

from segre.attention.mechanism import Mechanism
from segre.fields.interface import Array
from segre.sequence.forms import shared
from segre.sequence.taylor import coefficients, monomials

AT_ONCE = 1 << 20  # features at a time


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
    return max(32, AT_ONCE // (heads * features))
