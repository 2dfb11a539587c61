"""The symmetries of stacks with a mechanism for every head.

Symmetries of a single head follow from the properties of its mechanism (`hybrid_scores`). This
module has the others: values against outputs, bases between layers, heads that act as one, and
directions that no token reaches or no layer reads. How many dimensions each adds is counted at a
point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

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
from segre.geometry.gauge.hybrid_mixing import mixing_pieces
from segre.geometry.gauge.hybrid_scores import (
    Change,
    Family,
    Head,
    Own,
    against,
    any_change,
    score_families,
)
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.hybrid_passage import (
    Blind,
    HeadPlace,
    HybridPassage,
    dead,
    head_at,
    heads_of,
    parallel_tokens,
    pools,
)
from segre.spec import Network
from segre.stack.fiber import rowwise
from segre.stack.stages import named

Build = Callable[[ModularWeights], Array]


def hybrid_pieces(spec: Network) -> Iterator[Piece]:
    """The pieces of all layers, from the last to the first."""
    if any(all(dead(spec, layer, place) for place in heads_of(layer)) for layer in spec.layers):
        yield _piece("zero", "the network is zero", "everywhere", _everything)
        return
    parallel = parallel_tokens(spec)
    for i in reversed(range(spec.depth)):
        layer, where = spec.layers[i], f"layer {i + 1}"
        if i + 1 < spec.depth:
            yield _between(spec, i)
        yield _piece(*UNREAD, where, partial(_unread, i=i), i)
        yield _piece(*UNREACHED, where, partial(_unreached, i=i), i)
        for place in heads_of(layer):
            yield from _head_pieces(spec, i, place, parallel[i])
        for pool in pools(spec, layer):
            yield _piece(*POOLED, where, partial(_pooled, i=i, pool=pool), i)
        yield from mixing_pieces(spec, i, parallel[i])


def _everything(w: ModularWeights) -> Array:
    return np.eye(w.spec.parameters)


def _piece(
    kind: str, name: str, where: str, build: Build, i: int | None = None, head: int | None = None
) -> Piece:
    number = None if i is None else i + 1
    return Piece(kind, name, where, group_of(kind), "exact", None, build, number, head)


def _head_pieces(spec: Network, i: int, place: HeadPlace, parallel: bool) -> Iterator[Piece]:
    layer = spec.layers[i]
    several = layer.heads > 1
    where = f"layer {i + 1}" + (f", head {place.number}" if several else "")
    head = head_at(spec, layer, place, parallel)
    families = [*score_families(head), *_value_families(spec, layer, head, place)]
    for family in families:
        build = partial(_of_family, part=str(i + 1), place=place, family=family)
        yield _piece(family.kind, family.name, where, build, i, place.number)


def _of_family(w: ModularWeights, part: str, place: HeadPlace, family: Family) -> Array:
    """The changes of one head as tangents of all weights."""

    def own(name: str) -> Array:
        tensor: Array = w(part, named(place.group, name))[place.head]
        return tensor

    found = list(family.changes(own))
    canvas = w.canvas(len(found))
    for n, change in enumerate(found):
        for name, tangent in change.items():
            canvas(part, named(place.group, name))[n, place.head] = tangent
    return canvas.rows


def _last(layer: Layer, tensors: tuple[str, ...]) -> tuple[str, ...]:
    """The tensors of a head that write what it computes: W_O, or the value maps."""
    if layer.dv is not None:
        return ("W_O",)
    return tuple(n for n in tensors if n.partition("+")[0] == "W_V")


def _value_families(spec: Network, layer: Layer, head: Head, place: HeadPlace) -> Iterator[Family]:
    one, last = head.mechanism, _last(layer, head.tensors)
    values = tuple(n for n in head.tensors if n.partition("+")[0] == "W_V")
    if dead(spec, layer, place):
        names = (*values, *head.filters("V"), *(n for n in ("W_G", "W_O") if n in head.tensors))
        yield Family(
            "zero-head", "values of a head that mixes nothing", partial(any_change, names=names)
        )
        return
    if layer.dv is not None:
        rows = range(layer.dv)
        diagonal = rowwise(layer.groups[place.group].mechanism)
        pairs = [(j, k) for j in rows for k in rows if j == k or not diagonal]
        name = value_output(layer.dv, diagonal=diagonal)
        yield Family(*name, partial(_inner, values=values, pairs=pairs))
    if head.filters("V"):
        yield Family(*VALUE_FILTER, lambda own: against(own, head.filters("V"), ("W_V",)))
    if one.scales:
        power = 2 if one.feature == "square" else 1
        yield Family(*SCALE, partial(_scale, last=last, down=head.side("Q"), power=power))
    bias = next((n for n in ("b_Q", "b_K") if n in head.tensors), None)
    if (
        one.weigh == "identity"
        and one.feature == "exp"
        and one.normalise == one.unit == "none"
        and bias
    ):
        yield Family(
            "scale", "bias of features against values", partial(_bias_scale, last=last, bias=bias)
        )


def _inner(own: Own, values: tuple[str, ...], pairs: list[tuple[int, int]]) -> Iterator[Change]:
    """(W_V, W_O) -> (G W_V, W_O G^-1)."""
    for j, k in pairs:
        change: Change = {}
        for name in values:
            change[name] = np.zeros_like(own(name))
            change[name][j] = own(name)[k]
        change["W_O"] = np.zeros_like(own("W_O"))
        change["W_O"][:, k] = -own("W_O")[:, j]
        yield change


def _scale(own: Own, last: tuple[str, ...], down: tuple[str, ...], power: int) -> Iterator[Change]:
    yield {**{n: power * own(n) for n in last}, **{n: -own(n) for n in down}}


def _bias_scale(own: Own, last: tuple[str, ...], bias: str) -> Iterator[Change]:
    yield {**{n: own(n) for n in last}, bias: -np.ones_like(own(bias))}


def _between(spec: Network, i: int) -> Piece:
    """Basis of the tokens between two layers: written with C, read with C^-1."""
    layer, after = spec.layers[i], spec.layers[i + 1]
    d, part, following = layer.width_out, str(i + 1), str(i + 2)
    diagonal = layer.dv is None and any(rowwise(group.mechanism) for group in layer.groups)
    pairs = [(j, k) for j in range(d) for k in range(d) if j == k or not diagonal]
    writing = [named(n, x) for n, own in enumerate(layer.shapes) for x in _last(layer, tuple(own))]
    reading = [
        named(n, x)
        for n, own in enumerate(after.shapes)
        for x in own
        if x.partition("+")[0] in ("W_K", "W_Q", "W_V", "W_G")
    ]

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(len(pairs))
        for name in writing:
            tensor, change = w(part, name), canvas(part, name)
            for n, (j, k) in enumerate(pairs):
                change[n, :, j] = tensor[:, k]
        for name in reading:
            tensor, change = w(following, name), canvas(following, name)
            for n, (j, k) in enumerate(pairs):
                change[n, :, :, k] = -tensor[:, :, j]
        return canvas.rows

    where = f"between layers {i + 1} and {i + 2}"
    return _piece(*between(d, diagonal=diagonal), where, build, i)


def _unreached(w: ModularWeights, i: int) -> Array:
    """Add to the rows of a map any linear form that vanishes on all possible inputs."""
    return _added(w, i, HybridPassage(w).blind_rows(i), rows=True)


def _unread(w: ModularWeights, i: int) -> Array:
    """Add to the columns of a map any vector that nothing later reads."""
    return _added(w, i, HybridPassage(w).blind_columns(i), rows=False)


def _added(w: ModularWeights, i: int, blind: Iterator[Blind], rows: bool) -> Array:
    """Vectors added to each row, or column, of the tensors that have them."""
    part, found = str(i + 1), [np.zeros((0, w.spec.parameters))]
    for vectors in blind:
        first = next(iter(vectors))
        for at in range(w(part, first).shape[1 if rows else 2]):
            canvas = w.canvas(len(vectors[first]))
            for name, own in vectors.items():
                tensor = canvas(part, name)
                (tensor[:, :, at] if rows else tensor[:, :, :, at])[:] = own
            found.append(canvas.rows)
    return np.concatenate(found)


def _pooled(w: ModularWeights, i: int, pool: list[HeadPlace]) -> Array:
    """Heads with the same constant weights: only the sum of their value maps matters."""
    assert isinstance(w.spec, Network)
    part, layer = str(i + 1), w.spec.layers[i]
    found = [np.zeros((0, w.spec.parameters))]
    if layer.dv is None:
        rows, columns = layer.width_out, layer.width_in
        for other in pool[1:]:
            canvas = w.canvas(rows * columns)
            for place, sign in ((other, 1), (pool[0], -1)):
                tensor = canvas(part, named(place.group, "W_V"))
                for n, (r, c) in enumerate(np.ndindex(rows, columns)):
                    tensor[n, place.head, r, c] = sign
            found.append(canvas.rows)
        return np.concatenate(found)
    for one in pool:
        for two in pool:
            canvas = w.canvas(layer.dv * layer.dv)
            V, out = (w(part, named(p.group, x))[p.head] for p, x in ((two, "W_V"), (one, "W_O")))
            dV, dO = canvas(part, named(one.group, "W_V")), canvas(part, named(two.group, "W_O"))
            for n, (j, k) in enumerate(np.ndindex(layer.dv, layer.dv)):
                dV[n, one.head, j] = V[k]
                dO[n, two.head, :, k] = -out[:, j]
            found.append(canvas.rows)
    return np.concatenate(found)
