"""The dimension of a one-head stack as a formula in its widths, head ranks and tokens.

With U_i = V_i...V_1, the function depends only on M_i = U_{i-1}^T A_i U_{i-1} and L = U_l, and
for lightning attention only up to l scales. Counting dimensions of such tuples bounds the
dimension of the function space from above (the proof is in docs/mathematics.md, section 2).
That the bound is reached is proved by the exact rank, architecture by architecture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from functools import singledispatch
from itertools import product
from math import comb, gcd

from segre.architectures import Architecture
from segre.errors import UnsupportedError
from segre.finding import Bound, Evidence
from segre.geometry.stack_formula import fiber
from segre.models import Source, architecture
from segre.polynomial.bounds import bound
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.theorems.stacks import invariants
from segre.transformer.spec import Transformer

MOST_SEQUENCES = 4096


def closed_form(spec: Source) -> Bound:
    """The upper bound on the dimension given by the closed form.

    >>> closed_form("softmax/d=10,10,10/a=2,2/t=3").value
    172
    """
    return _formula(architecture(spec))


@singledispatch
def _formula(net: Architecture) -> Bound:
    raise UnsupportedError(
        f"spec {str(net)!r}: no closed form is known for transformers; leave out "
        "--method, or use --method count"
    )


@_formula.register
def _of_stack(net: Network) -> Bound:
    if not net.plain:
        raise UnsupportedError(
            f"spec {str(net)!r}: for stacks with a mechanism for every head the formula is a "
            "prediction, not a bound; leave out --method, or use --method exact"
        )
    if not net.one_headed:
        raise UnsupportedError(
            f"spec {str(net)!r}: no closed form is known for several heads or a factored value "
            "map; use --method exact"
        )
    value = _count(net)
    statement = (
        f"closed form of a one-head {net.score} stack: the function depends on at most "
        f"{value} dimensions of invariants of the weights"
    )
    return Bound(value, Evidence("closed-form", statement))


@_formula.register
def _by_inequalities(spec: Polynomial) -> Bound:
    found = bound(spec)
    kind = "theorem" if "veronese" in found.rules else "closed-form"
    return Bound(found.value, Evidence(kind, found.words, found.document()))


@singledispatch
def predicted(spec: Architecture) -> int | None:
    """The value of the formula, if there is one; where mechanisms have options it is not a bound.

    >>> predicted(architecture("softmax/d=4,4/a=2/gate=element/t=3"))
    44
    """
    return closed_form(spec).value if spec.has_closed_form else None


@predicted.register
def _by_fiber(spec: Network) -> int | None:
    free = None if spec.plain else fiber(spec)
    if free is not None:
        return spec.parameters - free
    return closed_form(spec).value if spec.has_closed_form else None


def _count(spec: Network) -> int:
    if spec.mechanism.silent(spec.t):  # the network is X -> L X
        rank = min(spec.widths)
        return rank * (spec.widths[-1] + spec.width_in - rank)
    bilinear = spec.mechanism.bilinear
    return invariants(spec, symmetric=bilinear and spec.t == 1) - spec.depth * bilinear


@singledispatch
def ambient(_spec: Architecture) -> Bound | None:
    """A bound by a space that all functions of an architecture lie in, where one is known."""
    return None


@ambient.register
def _lightning_forms(spec: Network) -> Bound | None:
    """Dimension of the space of polynomials for one lightning layer of heads that see the same.

    An output is a sum of products of a quadratic form in one token and a linear form in
    another (if tokens see only themselves: a cubic form), so nothing exceeds that space.
    """
    how = spec.mechanism.on(spec.t)
    same = spec.depth == 1 and all(one.on(spec.t) == how for one in spec.mechanisms)
    fixed = how.gate == how.conv == how.bias == "none" and how.decay != "learned"
    if not same or not fixed or not how.bilinear:
        return None
    d, out = spec.widths
    value = out * (comb(d + 2, 3) if how.alone(spec.t) else d * d * (d + 1) // 2)
    form = "cubic forms" if how.alone(spec.t) else "quadratic times linear forms"
    statement = f"one lightning layer lies in the {value}-dimensional space of {form}"
    return Bound(value, Evidence("ambient", statement))


# --- contexts -------------------------------------------------------------------------------------


@ambient.register
def few_contexts(spec: Transformer) -> Bound | None:
    """The bound by tables, where token sequences are few enough to be listed; it asks no weights.

    A column of the output depends on its *context*: its own token, and the tokens that it sees, as
    far as attention tells them apart. Columns of different sequences with the same context are
    equal for all weights. If there are N contexts, the function is a table of N columns, and before
    the unembedding it is a table of width d: both bound the dimension (docs/soundness.md, "Few
    contexts").


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
