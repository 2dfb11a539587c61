"""Values mixed by queries and keys, tokens in rows, by the method that should be quickest."""

from __future__ import annotations

from typing import Any

import numpy as np

from segre.attention.mechanism import Mechanism
from segre.attention.pattern import featured, unit_size
from segre.errors import SegreError, TooLargeError
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.sequence.choice import Sizes, choose, method_cost
from segre.sequence.forms import METHODS, banded, factors, methods, rates_of
from segre.sequence.given import heads_of, whole_block
from segre.sequence.rows import Recent, rows, slide
from segre.sequence.running import State, advance, factored

DEFAULT_LIMIT = 8 << 30


def mix(
    how: Mechanism,
    queries: Any,
    keys: Any,
    values: Any,
    method: str = "auto",
    *,
    decay: Any = None,
    block: int | None = None,
    memory: int = DEFAULT_LIMIT,
) -> Array:
    """The mixed values (..., n, dv) of queries and keys (..., n, a) and values (..., n, dv).

    `method` is dense (some rows of the pattern at a time), linear (features), band (only keys
    within the window) or auto. All give the same result up to rounding. `decay` gives the learned
    decay of each head.

    >>> from segre.attention.reading import one_of
    >>> rng = np.random.default_rng(0)
    >>> Q, K, V = rng.standard_normal((3, 500, 4))
    >>> how = one_of("lightning:decay=9/10")
    >>> bool(abs(mix(how, Q, K, V, "linear") - mix(how, Q, K, V, "dense")).max() < 1e-12)
    True
    """
    q, k, v = heads_of(how, queries, keys, values)
    size = whole_block(block)
    rates = rates_of(how, q.shape[:-2], decay)
    chosen = _method(how, q, k, v, method, memory)
    q, k = _prepared(how, q), _prepared(how, k)
    if chosen != "linear":
        return rows(how, rates, q, k, v, chosen == "band", size)
    if how.causal:
        return advance(how, rates, q, k, v, None, size)[0]
    return factored(how, q, k, v)


def feed(
    how: Mechanism,
    queries: Any,
    keys: Any,
    values: Any,
    state: State | Recent | None = None,
    *,
    decay: Any = None,
    block: int | None = None,
) -> tuple[Array, State | Recent]:
    """The outputs of a causal mechanism for the next tokens, and the state after them.

    The mechanism must have features, a window or local blocks.

    >>> from segre.attention.reading import one_of
    >>> how = one_of("lightning:decay=1/2")
    >>> X = np.arange(8.0).reshape(4, 2)
    >>> first, state = feed(how, X[:3], X[:3], X[:3])
    >>> rest, _ = feed(how, X[3:], X[3:], X[3:], state)
    >>> np.array_equal(np.concatenate([first, rest]), mix(how, X, X, X))
    True
    """
    if not how.causal or how.normalise == "both" or not (factors(how) or banded(how)):
        raise SegreError(
            f"{how.text} has no state of fixed size; feed needs causal attention with features "
            "(lightning, linear, fast), a window or local blocks"
        )
    q, k, v = heads_of(how, queries, keys, values)
    rates, size = rates_of(how, q.shape[:-2], decay), whole_block(block)
    q, k = _prepared(how, q), _prepared(how, k)
    if factors(how) and not isinstance(state, Recent):
        return advance(how, rates, q, k, v, state, size)
    if not factors(how) and not isinstance(state, State):
        return slide(how, rates, q, k, v, state, size)
    raise SegreError(
        f"the state belongs to another mechanism than {how.text}; start with a new state"
    )


def _prepared(how: Mechanism, x: Array) -> Array:
    """Queries, or keys, of unit size and through the feature map."""
    field = Real(x.dtype)
    if how.unit != "none":
        x = np.swapaxes(unit_size(field, how, np.swapaxes(x, -1, -2), x.shape[-1]), -1, -2)
    return featured(field, how, x)


def _method(how: Mechanism, q: Array, k: Array, v: Array, method: str, memory: int) -> str:
    count = int(np.prod(q.shape[:-2]))
    sizes = Sizes(q.shape[-2], q.shape[-1], v.shape[-1], count, q.dtype.itemsize)
    there = methods(how)
    if method == "auto":
        method = choose(how, sizes)
    elif method not in there:
        if method in METHODS:
            raise SegreError(f"{how.text} has no {method} form; allowed: auto, {', '.join(there)}")
        raise SegreError(f"method {method!r} is not allowed; allowed: auto, {', '.join(METHODS)}")
    out = q.itemsize * (q.size + k.size + count * q.shape[-2] * v.shape[-1])
    require_memory(how, sizes.n, method_cost(how, sizes, method).bytes + out, memory)
    return method


def require_memory(how: Mechanism, tokens: int, needed: int, limit: int) -> None:
    """Stop, saying what would be needed, if it is more than the limit."""
    if needed > limit:
        form = "" if len(methods(how)) > 1 else f"{how.text} has no linear-time form; "
        raise TooLargeError(
            f"{form}{tokens:,} tokens would need about {needed / 2**30:,.1f} GiB of memory, over "
            f"the limit of {limit / 2**30:,.1f} GiB; raise the limit with --memory, or give fewer "
            "tokens"
        )
