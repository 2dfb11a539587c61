"""The symmetries of a stack, layer by layer.

Each piece is a family of vector fields on weight space, given by a formula in the weights, along
which the function does not change (docs/mathematics.md, section 3, and docs/mechanisms.md).
Symmetries of a single head follow from the properties of its mechanism (`stack_scores`). This
module has the others: values against outputs, bases between layers, heads that act as one, and
directions that no token reaches or no layer reads. How many dimensions each adds to those before
it is counted at a point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import numpy as np

from segre.attention.layer import Layer
from segre.attention.symmetries import (
    POOLED,
    SCALE,
    UNREACHED,
    UNREAD,
    VALUE_FILTER,
    between,
    group_of,
    value_output,
)
from segre.fields.interface import Array
from segre.spec import Network
from segre.stack.stages import named
from segre.symmetry.passage import Blind
from segre.symmetry.piece import ModularWeights, Piece
from segre.symmetry.reach import (
    HeadPlace,
    Units,
    dead,
    head_at,
    heads_of,
    parallel_tokens,
    reached,
    read,
    units_of,
)
from segre.symmetry.stack_mixing import FACTORED, alike_heads, filled_pieces, mixed_pieces
from segre.symmetry.stack_scores import (
    Change,
    Family,
    Head,
    Own,
    Pairs,
    against,
    all_pairs,
    any_change,
    score_families,
    silent_scores,
    turned,
)

Build = Callable[[ModularWeights], Array]
_LATE = ("mix-some-heads", "filled", FACTORED)  # those that certificates lack come last


def stack_pieces(spec: Network) -> Iterator[Piece]:
    """The pieces that apply to a stack, from the last layer to the first.

    In this order the weights that a piece moves are mostly untouched by the pieces before, and
    their joint rank is cheap to compute. What needs most of the layer's heads comes last.
    """
    for layer in spec.layers:
        if all(dead(spec, layer, group) for group in range(len(layer.groups))):
            yield Piece("zero", "the network is zero", "everywhere", "VO", "exact", None, _all)
            return
    parallel, arrives, wanted = parallel_tokens(spec), reached(spec), read(spec)
    late: list[Piece] = []
    for i in reversed(range(spec.depth)):
        layer = spec.layers[i]
        if i + 1 < spec.depth:
            yield _between(spec, i)
        if layer.dv is not None or wanted[i + 1] < layer.width_out:
            yield _piece(spec, *UNREAD, i, partial(_unread, i=i))
        if layer.dv is not None or arrives[i] < layer.width_in:
            yield _piece(spec, *UNREACHED, i, partial(_unreached, i=i))
        # of tokens of one dimension GL(a) does it all
        yield from _heads(spec, i, parallel[i] and (arrives[i] > 1 or spec.mechanism.bilinear))
        for alike in alike_heads(spec, i, arrives[i], parallel[i]):
            mixed = list(mixed_pieces(alike))
            yield from (piece for piece in mixed if piece.kind != FACTORED)
            late += [*filled_pieces(alike), *(piece for piece in mixed if piece.kind == FACTORED)]
    yield from sorted(late, key=lambda piece: _LATE.index(piece.kind))


def _all(w: ModularWeights) -> Array:
    return np.eye(w.spec.parameters)


def place(spec: Network, kind: str, layer: int, head: int | None) -> str:
    """Where a piece acts, in words; a lone head is not mentioned."""
    if kind == "between":
        return f"between layers {layer} and {layer + 1}"
    several = spec.layers[layer - 1].heads > 1
    return f"layer {layer}" + (f", head {head}" if several and head is not None else "")


def _piece(
    spec: Network, kind: str, name: str, i: int, build: Build, head: int | None = None
) -> Piece:
    where = place(spec, kind, i + 1, head)
    return Piece(kind, name, where, group_of(kind), "exact", None, build, i + 1, head)


def _heads(spec: Network, i: int, parallel: bool) -> Iterator[Piece]:
    """The symmetries of single heads, and of those that act as one."""
    layer = spec.layers[i]
    every = heads_of(layer)
    heads = [head_at(spec, layer, g, parallel) for g in range(len(layer.groups))]
    quiet = [(p, silent_scores(heads[p.group])) for p in every if heads[p.group].stuck]
    if quiet:
        kind, name = quiet[0][1].kind, quiet[0][1].name
        yield _piece(spec, kind, name, i, partial(_of_families, i=i, families=quiet))
    pools = [unit for unit in units_of(spec)[i] if unit.pooled]
    pooled = {one.group for unit in pools for one in unit.places}
    families = [
        _families(head, layer.dv, g in pooled, dead(spec, layer, g)) for g, head in enumerate(heads)
    ]
    for one in every:
        for family in families[one.group]:
            build = partial(_of_families, i=i, families=[(one, family)])
            yield _piece(spec, family.kind, family.name, i, build, one.number)
    for unit in pools:
        if layer.dv is not None or len(unit.places) > 1:
            yield _pooled(spec, i, unit)


@lru_cache(maxsize=256)
def _families(head: Head, dv: int | None, pooled: bool, zero: bool) -> tuple[Family, ...]:
    """All symmetries of a head by itself; of a pooled one its values are not its own."""
    return (*score_families(head), *([_zero_head(head)] if zero else _values(head, dv, pooled)))


def _of_families(w: ModularWeights, i: int, families: list[tuple[HeadPlace, Family]]) -> Array:
    """The changes of heads as tangents of all weights."""
    part, found = str(i + 1), []
    for at, family in families:

        def own(name: str, at: HeadPlace = at) -> Array:
            tensor: Array = w(part, named(at.group, name))[at.head]
            return tensor

        for change in family.changes(own):
            canvas = w.canvas(len(next(iter(change.values()))))
            for name, tangent in change.items():
                canvas(part, named(at.group, name))[:, at.head] = tangent
            found.append(canvas.rows)
    return found[0] if len(found) == 1 else np.concatenate([w.canvas(0).rows, *found])


def _last(layer: Layer, group: int) -> tuple[str, ...]:
    """The tensors of a group that write what it computes: W_O, or the value maps."""
    return layer.taps(group, "W_V" if layer.dv is None else "W_O")


def _zero_head(head: Head) -> Family:
    roots = ("W_V", "c_V", "W_G", "W_O")
    names = [n for n in head.tensors if n.partition("+")[0] in roots]
    changes = partial(any_change, names=names)
    return Family("zero-head", "values of a head that mixes nothing", changes)


def _values(head: Head, dv: int | None, pooled: bool) -> Iterator[Family]:
    one = head.mechanism
    values = tuple(n for n in head.tensors if n.partition("+")[0] == "W_V")
    last = values if dv is None else ("W_O",)
    if dv is not None and not pooled:
        pairs = all_pairs(dv, diagonal=one.rowwise)
        name = value_output(dv, diagonal=one.rowwise)
        yield Family(*name, partial(_inner, values=values, pairs=pairs))
    if head.filters("V"):
        yield Family(*VALUE_FILTER, lambda own: against(own, head.filters("V"), ("W_V",)))
    if one.scales:
        power = one.power * (2 if one.feature == "square" else 1)
        yield Family(*SCALE, partial(_scale, last=last, down=head.side("Q"), power=power))
    bias = next((n for n in ("b_Q", "b_K") if n in head.tensors), None)
    if one.sums_of_exponentials and one.normalise == "none" and bias:
        what = "bias of features against values"
        yield Family("scale", what, partial(_bias_scale, last=last, bias=bias))


def _inner(own: Own, values: tuple[str, ...], pairs: Pairs) -> Iterator[Change]:
    """(W_V, W_O) -> (G W_V, W_O G^-1)."""
    out = turned(own("W_O").T, pairs[::-1], -1).swapaxes(1, 2)
    yield {**{name: turned(own(name), pairs) for name in values}, "W_O": out}


def _scale(own: Own, last: tuple[str, ...], down: tuple[str, ...], power: int) -> Iterator[Change]:
    """(V, Q) -> (c V, Q / c), where a factor of the scores is one of the pattern."""
    yield {**{n: power * own(n)[None] for n in last}, **{n: -own(n)[None] for n in down}}


def _bias_scale(own: Own, last: tuple[str, ...], bias: str) -> Iterator[Change]:
    yield {**{n: own(n)[None] for n in last}, bias: -np.ones_like(own(bias))[None]}


def _between(spec: Network, i: int) -> Piece:
    """Basis of the tokens between two layers: written with C, read with C^-1."""
    layer, after = spec.layers[i], spec.layers[i + 1]
    d, part, following = layer.width_out, str(i + 1), str(i + 2)
    diagonal = layer.dv is None and any(group.mechanism.rowwise for group in layer.groups)
    j, k = all_pairs(d, diagonal=diagonal)
    writing = [named(g, x) for g in range(len(layer.groups)) for x in _last(layer, g)]
    reading = [
        named(g, x)
        for g in range(len(after.groups))
        for root in ("W_K", "W_Q", "W_V", "W_G")
        for x in after.taps(g, root)
    ]

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(len(j))
        for name in writing:
            canvas(part, name)[range(len(j)), :, j] = w(part, name)[:, k].swapaxes(0, 1)
        for name in reading:
            moved = np.moveaxis(w(following, name)[:, :, j], -1, 0)
            canvas(following, name)[range(len(j)), :, :, k] = -moved
        return canvas.rows

    return _piece(spec, *between(d, diagonal=diagonal), i, build)


def _unreached(w: ModularWeights, i: int) -> Array:
    """Add to the rows of a map any linear form that vanishes on all possible inputs."""
    return _added(w, i, w.passage.blind_rows(i), rows=True)


def _unread(w: ModularWeights, i: int) -> Array:
    """Add to the columns of a map any vector that nothing later reads."""
    return _added(w, i, w.passage.blind_columns(i), rows=False)


def _added(w: ModularWeights, i: int, blind: Iterator[Blind], rows: bool) -> Array:
    """Vectors added to each row, or column, of the tensors that have them."""
    part, found = str(i + 1), [w.canvas(0).rows]
    for vectors in blind:
        first = next(iter(vectors))
        count = len(vectors[first])
        places = w(part, first).shape[1 if rows else 2]
        canvas = w.canvas(places * count)
        each = range(places)
        for name, own in vectors.items():
            tensor = canvas(part, name)
            tensor = tensor.reshape(places, count, *tensor.shape[1:])
            np.moveaxis(tensor, 3 if rows else 4, 1)[each, each] = own
        found.append(canvas.rows)
    return np.concatenate(found)


def _pooled(spec: Network, i: int, unit: Units) -> Piece:
    """Heads with the same constant weights: only the sum of their value maps matters."""
    layer, pool = spec.layers[i], unit.places
    if layer.dv is None:
        return _piece(spec, *POOLED, i, partial(_differences, i=i, pool=pool))
    name = f"value-output basis of pooled heads GL({len(pool) * layer.dv})"
    return _piece(spec, "pooled-heads", name, i, partial(_one_basis, i=i, pool=pool))


def _differences(w: ModularWeights, i: int, pool: list[HeadPlace]) -> Array:
    part, layer = str(i + 1), w.stack.layers[i]
    size = layer.width_out * layer.width_in
    canvas = w.canvas((len(pool) - 1) * size)
    for n, other in enumerate(pool[1:]):
        for at, sign in ((other, 1), (pool[0], -1)):
            tensor = canvas(part, named(at.group, "W_V"))[n * size : (n + 1) * size, at.head]
            tensor[:] = sign * np.eye(size).reshape(-1, *tensor.shape[1:])
    return canvas.rows


def _one_basis(w: ModularWeights, i: int, pool: list[HeadPlace]) -> Array:
    """The W_V of all heads above each other, and the W_O beside each other: GL acts."""
    part, dv = str(i + 1), w.stack.layers[i].dv or 0
    V, out = ([w(part, named(at.group, name))[at.head] for at in pool] for name in ("W_V", "W_O"))
    j, k = all_pairs(len(pool) * dv)
    dV = turned(np.concatenate(V), (j, k))
    dO = turned(np.concatenate(out, axis=1).T, (k, j), -1).swapaxes(1, 2)
    canvas = w.canvas(len(j))
    for n, at in enumerate(pool):
        own = slice(n * dv, (n + 1) * dv)
        canvas(part, named(at.group, "W_V"))[:, at.head] = dV[:, own]
        canvas(part, named(at.group, "W_O"))[:, at.head] = dO[:, :, own]
    return canvas.rows
