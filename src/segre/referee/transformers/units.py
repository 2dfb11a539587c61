"""Along which tangents do units and tables stay what they are? Families 13 to 16 of section 9."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from flint import nmod_mat

from segre.referee.transformers.tangents import Family, Point, Tangent, together
from segre.referee.transformers.weights import EMBED, HEAD, Key, Place

_DEGREE = {
    "relu": 1,
    "swiglu": 1,
    "geglu": 1,
    "geglu-tanh": 1,
    "geglu-quick": 1,
    "reglu": 1,
    "bilinear": 1,
    "relu2": 2,
}


def units(point: Point, part: int) -> Family:
    """Family 13: the router and the hidden units of the MLP of one layer."""
    router = point.keys([(part, "W_R")])
    if router and point.spec.router.startswith("softmax"):
        for i in range(point.spec.d):
            yield "router-shift", together(*(point.filled(key, column=i) for key in router))
        biases = point.keys([(part, "c_R")])
        if biases:
            yield "router-shift", together(*(point.filled(key) for key in biases))
    degree = _DEGREE.get(point.spec.mlp)
    if degree is None:
        return
    inner = ["up"] + ["gate"] * (point.spec.mlp in ("reglu", "bilinear"))
    for letter, name in product("WS", inner):
        down: Place = (part, f"{letter}_down")
        for number, _ in enumerate(point.keys([down])):
            weight = (part, f"{letter}_{name}", number)
            biases = [(part, f"{kind}_{name}", number) for kind in ("b", "c")]
            keys = [weight, *(bias for bias in biases if letter == "W" and bias in point.matrices)]
            size = point.matrices[weight].nrows()
            for j in range(size):
                moved = point.left(keys, point.unit(size, (j, j, 1)))
                shrink = point.unit(size, (j, j, -degree))
                yield "unit-scale", together(moved, point.right([(*down, number)], shrink))


def shiftable(point: Point) -> bool:
    """Whether adding a number to all logits of a token changes nothing."""
    return point.spec.output == "softmax" and not point.spec.logitcap


def bound_table(point: Point, place: Place) -> bool:
    """Whether a tensor is the table of tokens, and shifting it would change the logits."""
    return place == (EMBED, "tokens") and point.spec.tied and not shiftable(point)


def tables(point: Point) -> Family:
    """Families 14 to 16: the tables of a vocabulary, and the unembedding."""
    families = {"logit-shift": _logit_shift, "bias-shift": _bias_shift}
    if point.spec.vocab:
        families |= {"table-shift": _table_shift, "tied-mean": _tied_mean}
    if point.spec.patch:
        families |= {"table-shift": _patch_shift, "unread": _masked}
    for name, family in families.items():
        for tangent in family(point):
            yield name, tangent


def _patch_shift(point: Point) -> Iterator[Tangent]:
    """Constants from the positions to the bias of patches, or to the class token."""
    spec, key = point.spec, (EMBED, "positions", 0)
    for name, places in (("cls", range(1)), ("b_P", range(int(spec.cls), spec.positions))):
        for i in range(spec.d) if point.has((EMBED, name)) else ():
            minus = point.zero(spec.d, spec.positions)
            for c in places:
                minus[i, c] = -1
            yield together(point.filled((EMBED, name, 0), row=i), {key: minus})


def _masked(point: Point) -> Iterator[Tangent]:
    """The token of masked patches, which no input has."""
    for i in range(point.spec.d) if point.spec.masked else ():
        yield point.filled((EMBED, "mask", 0), row=i)


def _table_shift(point: Point) -> Iterator[Tangent]:
    spec = point.spec
    tokens, positions, types = ((EMBED, name, 0) for name in ("tokens", "positions", "types"))
    others = [key for key in (positions, types) if key in point.matrices]
    scale = point.field.root_of_width(spec.d) if spec.embscale else 1
    for i in range(spec.embed or spec.d):
        if len(others) == 2:
            minus = {types: -point.filled(types, row=i)[types]}
            yield together(point.filled(positions, row=i), minus)
        if others and (not spec.tied or shiftable(point)):
            table = others[0]
            minus = {table: point.filled(table, row=i)[table] * -scale}
            if spec.project:
                minus = {table: -_projected(point, i, table)}
            yield together(point.filled(tokens, row=i), minus)
    if others and spec.tied and not spec.project and not shiftable(point):
        yield from _unread_shift(point, others[0], scale)


def _projected(point: Point, row: int, table: Key) -> nmod_mat:
    """What a shift of all tokens adds to the stream, in every column of a table."""
    W_E = point.matrices[EMBED, "W_E", 0]
    unit = point.field.unit(W_E.ncols(), 1, row, 0)
    columns: nmod_mat = W_E * unit * point.field.ones(1, point.matrices[table].ncols())
    return columns


def _unread_shift(point: Point, table: Key, scale: int) -> Iterator[Tangent]:
    """A shift of a tied table that adds the same number to all logits, and b_U takes away."""
    norm = point.stream.norm_before_table()
    if point.spec.norm != "layer" or norm is None:
        return
    if point.has(norm.bias) and not point.has((HEAD, "b_U")):
        return
    column = point.mean_form(norm).transpose()
    tokens = (EMBED, "tokens", 0)
    tangent = {
        key: column * point.field.ones(1, point.matrices[key].ncols()) * factor
        for key, factor in ((tokens, 1), (table, -scale))
    }
    if point.has(norm.bias):
        key = (HEAD, "b_U", 0)
        tangent[key] = point.filled(key)[key] * -point.mean_value(norm)
    yield tangent


def _tied_mean(point: Point) -> Iterator[Tangent]:
    spec, stream = point.spec, point.stream
    tables = [place for place in ((EMBED, "positions"), (EMBED, "types")) if point.has(place)]
    if not spec.tied or tables or not shiftable(point) or spec.norm != "layer":
        return
    consumers = stream.joint_spots[0].consumers
    normed = all(stream.norm_before(consumer) is not None for consumer in consumers)
    if spec.embnorm or (not spec.embed and spec.place != "post" and normed):
        yield point.filled((EMBED, "tokens", 0))


def _logit_shift(point: Point) -> Iterator[Tangent]:
    for key in point.keys([(HEAD, "W_U"), (HEAD, "W_rel")]) if shiftable(point) else []:
        for i in range(point.matrices[key].ncols()):
            yield point.filled(key, column=i)


def _bias_shift(point: Point) -> Iterator[Tangent]:
    for key in point.keys([(HEAD, "b_U"), (HEAD, "b_rel")]) if shiftable(point) else []:
        yield point.filled(key)
