"""Values mixed by queries and keys, tokens in rows, by the method that should be quickest."""

from __future__ import annotations

from typing import Any

import numpy as np

from segre.errors import SegreError, TooLargeError
from segre.fields.interface import Array
from segre.sequence.cost import METHODS, Sizes, choose, cost, methods
from segre.sequence.factored import factored
from segre.sequence.given import heads_of, whole_block
from segre.sequence.mixing import Mixing
from segre.sequence.rows import rows
from segre.sequence.running import State, advance

DEFAULT_LIMIT = 8 << 30


def mix(
    how: Mixing,
    queries: Any,
    keys: Any,
    values: Any,
    method: str = "auto",
    *,
    block: int | None = None,
    memory: int = DEFAULT_LIMIT,
) -> Array:
    """The mixed values (..., n, dv) of queries and keys (..., n, a) and values (..., n, dv).

    `method`: dense (some rows of the pattern at a time), linear (features), band (only keys within
    reach), or auto. All give the same numbers, but for rounding.

    >>> rng = np.random.default_rng(0)
    >>> Q, K, V = rng.standard_normal((3, 500, 4))
    >>> how = Mixing("identity", share="none", causal=True, decay=0.9)
    >>> abs(mix(how, Q, K, V, "linear") - mix(how, Q, K, V, "dense")).max() < 1e-12
    np.True_
    """
    q, k, v = heads_of(how, queries, keys, values)
    size = None if block is None else whole_block(block)
    chosen = _method(how, q, k, v, method, memory)
    if chosen != "linear":
        return rows(how, q, k, v, chosen == "band", size)
    return advance(how, q, k, v, None, size)[0] if how.causal else factored(how, q, k, v)


def feed(
    how: Mixing,
    queries: Any,
    keys: Any,
    values: Any,
    state: State | None = None,
    *,
    block: int | None = None,
) -> tuple[Array, State]:
    """The next tokens of a causal mechanism with features, and the state to give with those after.

    >>> how = Mixing("identity", share="none", causal=True, decay=0.5)
    >>> X = np.arange(8.0).reshape(4, 2)
    >>> first, state = feed(how, X[:3], X[:3], X[:3])
    >>> rest, _ = feed(how, X[3:], X[3:], X[3:], state)
    >>> np.array_equal(np.concatenate([first, rest]), mix(how, X, X, X))
    True
    """
    if not (how.causal and how.factors):
        raise SegreError(
            f"{_named(how)} has no state of fixed size; feed needs causal attention with features "
            "(weigh identity or taylor, share none or keys, no window)"
        )
    q, k, v = heads_of(how, queries, keys, values)
    return advance(how, q, k, v, state, None if block is None else whole_block(block))


def _method(how: Mixing, q: Array, k: Array, v: Array, method: str, memory: int) -> str:
    sizes = Sizes(
        max(q.shape[-2], k.shape[-2]),
        q.shape[-1],
        v.shape[-1],
        int(np.prod(q.shape[:-2])),
        q.dtype.itemsize,
    )
    there = methods(how)
    if method == "auto":
        method = choose(how, sizes)
    elif method not in there:
        if method in METHODS:
            raise SegreError(
                f"{_named(how)} has no {method} form; allowed: auto, {', '.join(there)}"
            )
        raise SegreError(f"method {method!r}; allowed: auto, {', '.join(METHODS)}")
    needed = cost(how, sizes, method).bytes + sizes.heads * sizes.n * sizes.dv * sizes.number
    if needed > memory:
        form = "" if len(there) > 1 else f"{_named(how)} has no linear-time form; "
        raise TooLargeError(
            f"{form}{sizes.n:,} tokens would need about {needed / 2**30:,.1f} GiB of memory, over "
            f"the limit of {memory / 2**30:,.1f} GiB; raise it with --memory, or give fewer tokens"
        )
    return method


def _named(how: Mixing) -> str:
    """A mechanism as errors name it."""
    known = {("exp", "keys"): "softmax", ("exp", "queries-keys"): "doubly-normalised attention"}
    return known.get((how.weigh, how.share), f"weigh={how.weigh}, share={how.share}")
