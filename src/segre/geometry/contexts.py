"""How many functions are there of few token sequences? An upper bound that asks no weights.

A column of the output depends on its *context*: its own token, and the tokens that it sees, as far
as attention tells them apart. Columns of different sequences with the same context are equal for
all weights. If there are N contexts, the function is a table of N columns, and before the
unembedding it is a table of width d: both bound the dimension (docs/soundness.md, "Few contexts").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from itertools import product
from math import gcd

from segre.finding import Bound, Evidence
from segre.transformer.spec import Transformer

MOST_SEQUENCES = 4096


def few_contexts(spec: Transformer) -> Bound | None:
    """The bound, where sequences are few enough to be listed.

    >>> few_contexts(Transformer.parse("transformer/d=4/heads=2/vocab=3/t=1")).value
    6
    """
    kinds = spec.vocab * max(1, spec.types)
    if not spec.discrete or spec.pooler or kinds**spec.t > MOST_SEQUENCES:
        return None
    count = len(contexts(spec))
    value = _tables(spec, count)
    statement = (
        f"an output is one of {count} columns, depending on the tokens it sees; the tables of "
    )
    statement += f"such columns that the last layer can write have {value} dimensions"
    return Bound(value, Evidence("contexts", statement, {"contexts": count}))


def contexts(spec: Transformer) -> set[Hashable]:
    """The contexts of all columns of the output, over all sequences."""
    kinds = list(product(range(spec.vocab), range(max(1, spec.types))))
    read = {"all": range(spec.t), "first": [0], "last": [spec.t - 1]}[spec.read]
    found: set[Hashable] = set()
    names: dict[Hashable, int] = {}  # a context is written once, and then has a number
    for sequence in product(kinds, repeat=spec.t):
        own: list[Hashable] = [
            (kind, place if spec.pos == "learned" else 0) for place, kind in enumerate(sequence)
        ]
        for layer in range(1, spec.layers + 1):
            after = [_after(spec, layer, own, query) for query in range(spec.t)]
            own = [names.setdefault(context, len(names)) for context in after]
        found.update(own[place] for place in read)
    return found


def _after(spec: Transformer, layer: int, own: list[Hashable], query: int) -> Hashable:
    """The context of a token after a layer, by those before it."""
    reach, how = spec.sees(layer), spec.at(layer)
    placed = how.rotary_dim > 0 or how.decay != "none"
    first = max(0, query - reach + 1)
    last = query if spec.causal else min(spec.t - 1, query + reach - 1)
    seen = range(first, last + 1)
    kept = own[query] if spec.residual else None
    if how.sums_to_one and len({own[key] for key in seen}) == 1:
        return layer, kept, own[first]  # the mean of equal values is the value
    counts = Counter((own[key], key - query if placed else 0) for key in seen)
    common = gcd(*counts.values()) if how.sums_to_one else 1
    shares = frozenset((key, count // common) for key, count in counts.items())
    return layer, own[query], kept, shares


def _tables(spec: Transformer, count: int) -> int:
    """The dimension of the tables with `count` columns that the last layer can write."""
    last = spec.final or spec.place == "post" or spec.transform  # a norm: the sphere, if eps = 0
    last = last and spec.headnorm
    width = spec.head_width if spec.transform else spec.d
    rank = width - (last and spec.norm == "layer")
    if spec.project:
        return _projected_tables(spec, count)
    sphere = last and not spec.eps
    shifted = last and spec.norm_bias
    if spec.output == "hidden":
        constants = spec.d * (spec.gain + shifted) if last else 0
        return min(count * spec.d, count * (rank - sphere) + constants)
    words = spec.labels or spec.vocab
    whole = words - (spec.output == "softmax")
    rows = words if spec.logitcap else whole
    biased = spec.outbias or shifted
    best = min(count * whole, _bounded_rank(rows, count, rank, biased))
    if sphere:
        free = rank - min(rank, rows + count)  # dimensions that no row and no column has
        turns = (rank * (rank - 1) - free * (free - 1)) // 2
        best = min(best, count * (rank - 1) + rows * (rank + biased) - turns)
    return best


def _projected_tables(spec: Transformer, count: int) -> int:
    """The same of outputs that pass a narrow map."""
    if spec.output == "hidden":
        return count * spec.embed
    whole = spec.vocab - (spec.output == "softmax")
    rows = spec.vocab if spec.logitcap else whole
    return min(count * whole, _bounded_rank(rows, count, spec.embed, False))


def _bounded_rank(rows: int, columns: int, rank: int, biased: bool) -> int:
    """The dimension of matrices U H, or U H + b 1^T, with U of so many columns."""
    columns -= biased
    k = min(rank, rows, columns)
    return k * (rows + columns - k) + rows * biased
