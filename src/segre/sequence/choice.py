"""Which method is the quickest? Operations and memory of each, and what is kept for later tokens.

Operations are counted; a multiplication with an addition is two. `load` weighs them by how long
NumPy takes for each kind, in units of one operation of a large matrix product, and `auto` takes
the method with the least. bench.linear measures how good that choice is.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

from segre.attention.mechanism import Mechanism
from segre.sequence import rows as _rows
from segre.sequence.forms import factors, feature_count, methods, shared
from segre.sequence.running import default_block, tokens_at_once

# one number of an array; an exponential; a sum; a feature, made and read; a call
_PASS, _EXP, _SUM, _FEATURE, _CALL = 8, 44, 16, 32, 80_000
# A number of an array of so many bytes that is new memory at every call, as polynomials of scores
# are in a process that has allocated nothing larger yet; a part is charged: later it is free.
_NEW, _LARGE = 72, 180_000


@dataclass(frozen=True)
class Sizes:
    """Of one mechanism: tokens, widths of queries and of values, heads, bytes of a number."""

    n: int
    a: int
    dv: int
    heads: int = 1
    number: int = 4


@dataclass(frozen=True)
class Cost:
    """Of one method, for all heads."""

    operations: int
    bytes: int  # of what is held besides queries, keys, values and outputs
    load: float  # operations, weighed by how long each kind takes


@lru_cache(maxsize=1024)
def method_cost(how: Mechanism, sizes: Sizes, method: str) -> Cost:
    """What one method costs."""
    if method != "linear":
        return _of_rows(how, sizes, reach=method == "band")
    return _running(how, sizes) if how.causal else _factored(how, sizes)


@lru_cache(maxsize=1024)
def choose(how: Mechanism, sizes: Sizes) -> str:
    """The method that is expected to be the fastest.

    >>> from segre.attention import NAMED
    >>> fast = NAMED["fast"]
    >>> [choose(fast, Sizes(n, a=16, dv=16)) for n in (64, 4096)]
    ['dense', 'linear']
    """
    return min(methods(how), key=lambda method: method_cost(how, sizes, method).load)


def crossover(how: Mechanism, sizes: Sizes, most: int = 1 << 30) -> int | None:
    """From how many tokens on the best other method is expected to beat the dense one.

    None if there is no other method, or if it never does.
    """

    def better(n: int) -> bool:
        return choose(how, Sizes(n, sizes.a, sizes.dv, sizes.heads, sizes.number)) != "dense"

    return bisect_left(range(most), True, 1, key=better) if better(most) else None


def state_size(how: Mechanism, sizes: Sizes) -> int | None:
    """How many numbers of the tokens so far are needed; None if outputs depend on later tokens.

    Without features that is all keys and values, or those within reach. Where weights are
    normalised over queries, later queries change what earlier ones take.
    """
    if not how.causal or how.normalise == "both":
        return None
    if factors(how):
        return sizes.heads * feature_count(how, sizes.a) * (sizes.dv + shared(how))
    reach = [sizes.n, *[x for x in (how.window, how.local) if x is not None]]
    return sizes.heads * min(reach) * (sizes.a + sizes.dv)


def _pointwise(how: Mechanism) -> tuple[int, int]:
    """Operations on one score, and their load."""
    count, load = 0, 0
    if how.exponential:
        count, load = 1, _EXP
        if shared(how):
            count, load = count + 2, load + 2 * _PASS
    else:
        count, load = how.operations, how.operations * _PASS
    if shared(how):
        count, load = count + 1, load + _SUM
    if how.decay != "none":
        count, load = count + 1, load + 2 * _PASS
    if how.normalise == "both":
        count, load = 2 * count, 2 * load
    return count, load


def _of_rows(how: Mechanism, sizes: Sizes, reach: bool) -> Cost:
    n, a, dv = sizes.n, sizes.a, sizes.dv
    size = min(_rows.block_rows(how, n, reach), n)
    width = how.keys(n) if not how.causal else (n + size) / 2
    if reach and how.window is not None:
        width = min(width, size + how.window * (1 if how.causal else 2))
    if reach and how.local is not None:
        width = min(width, size)
    count, load = _pointwise(how)
    products = 2 * (a + dv) + 2 * a * (how.normalise == "both")
    masked = 2 * _PASS * (width if reach else size if how.causal else 0)
    pairs = n * width
    if how.series and size * n * sizes.number >= _LARGE:
        load += _NEW
    at_once = sizes.heads * n * n <= _rows.AT_ONCE
    calls = 14 * (1 if at_once else sizes.heads) * -(-n // size)
    return Cost(
        round(sizes.heads * pairs * (products + count)),
        round(size * (n if not reach else width) * sizes.number * (sizes.heads if at_once else 1)),
        sizes.heads * (pairs * (products + load) + n * masked) + calls * _CALL,
    )


def _running(how: Mechanism, sizes: Sizes) -> Cost:
    n, a, dv = sizes.n, sizes.a, sizes.dv + shared(how)
    block = min(default_block(how, a, sizes.dv), n)
    features = feature_count(how, a)
    count, load = _pointwise(how)
    made = 2 * features if how.series else 0
    products = 4 * features * dv + 2 * block * (a + dv)
    passes = 4 * features * dv / block + 2 * dv
    if how.decay != "none":
        passes += features + dv
    passes += 2 * dv * shared(how)
    blocks = -(-n // block)
    calls = 18 + 5 * blocks + (2 * (a * (how.order - 1) + 16) * blocks if made else 0)
    return Cost(
        round(sizes.heads * n * (products + passes + made + count * block)),
        round(sizes.heads * sizes.number * (block * (block + made) + 3 * features * dv)),
        sizes.heads * n * (products + _PASS * passes + _FEATURE * made + (load + _PASS) * block)
        + calls * _CALL,
    )


def _factored(how: Mechanism, sizes: Sizes) -> Cost:
    n, a, dv = sizes.n, sizes.a, sizes.dv + shared(how)
    features = feature_count(how, a)
    share = (n + how.keys(n)) / (2 * n)  # queries and keys, halves of a token each
    products = 4 * features * dv * share
    made = 2 * features * share if how.series else 0
    step = min(tokens_at_once(sizes.heads, features), n)
    passes = 2 * dv * shared(how)
    calls = 8 + (2 * (a * (how.order - 1) + 16) * -(-n // step) if made else 0)
    return Cost(
        round(sizes.heads * n * (products + passes + made)),
        round(sizes.heads * sizes.number * features * (dv + (step if made else 0))),
        sizes.heads * n * (products + 2 * _PASS * passes + _FEATURE * made) + calls * _CALL,
    )
