"""What does a narrow layer not pass on? Families 56 to 58 of section 9."""

from __future__ import annotations

from itertools import product

from flint import nmod_mat

from segre.referee.linear import above, annihilator
from segre.referee.transformers.lone import pooled_span
from segre.referee.transformers.narrow import written
from segre.referee.transformers.stream import Spot
from segre.referee.transformers.tangents import Family, Point
from segre.referee.transformers.weights import EMBED, Place, parts

_ATTENTION = {
    "sinks",
    "normo.gain",
    *(f"{x}_{y}" for x, y in product("WbAR", "QKVGO")),
    *(f"norm{n}.{x}" for n, x in product("1qk", ("gain", "bias"))),
}


def cut_off(point: Point) -> Family:
    """Families 56 and 57."""
    if point.spec.residual or point.spec.parallel:
        return
    for spot in point.stream.spots:
        yield from _unread(point, spot)
    yield from _signs(point)


def _unread(point: Point, spot: Spot) -> Family:
    spec, stream = point.spec, point.stream
    if not spot.free or spec.embed or spec.embscale:
        return
    if spec.tied and (spot.writes("embedding") or spot.reads("head")):
        return
    norms = [stream.norm_before(consumer) for consumer in spot.consumers]
    norms += [stream.norm_after(producer) for producer in spot.producers]
    if any(norm is not None for norm in norms):
        return
    silent = spec.t == 1 and spec.attn == "softmax" and not spec.sinks and not spec.kvrank
    weights: list[Place] = [r.weight for c in spot.consumers for r in stream.readers(c)]
    weights = [w for w in weights if not (silent and w[1] in ("W_Q", "W_K"))]
    keys = point.keys(weights)
    rows = sum(point.matrices[key].nrows() for key in keys)
    if not 0 < rows < spec.d:
        return
    forms = above([point.matrices[key] for key in keys])
    for u in annihilator(forms, "what is read"):
        column = nmod_mat(spec.d, 1, u, point.p)
        for key in point.keys(place for end in spot.producers for place in stream.written(end)):
            size = point.matrices[key].ncols()
            for c in range(size):
                yield "unread", {key: column * point.field.unit(1, size, 0, c)}


def _signs(point: Point) -> Family:
    spec, stream = point.spec, point.stream
    if spec.eps or spec.norm == "none" or spec.tied or (spec.share and spec.layers > 1):
        return
    consumers = [*stream.sequence, *(c for c in stream.consumers[-1:] if c.kind == "head")]
    pooled = spec.t == 1 and spec.attn == "softmax" and not spec.sinks and spec.gate == "none"
    for consumer in reversed(consumers):
        producers = stream.producers_for(consumer)
        if len(producers) > 1 or producers[0] not in stream.sequence:
            continue
        if stream.norm_before(consumer) is None:
            continue
        producer = producers[0]
        span = written(point, producer)
        if pooled and producer.kind == "attention":
            span = pooled_span(point, producer.part) or span
        assert span is not None
        if min(span.whole.ncols(), spec.d - (spec.norm == "layer")) > 1:
            continue
        before = stream.sequence[: stream.sequence.index(producer) + 1]
        kept = set(stream.written(producer))
        if spec.kvrank:
            kept.add((producer.part, "W_V"))
        for part in (EMBED, *parts(spec)):
            kinds = {actor.kind for actor in before if actor.part == part}
            for place in point.layout.by_place:
                whole = part == EMBED or "mlp" in kinds or (kinds and spec.mlp == "none")
                free = whole or (kinds and place[1] in _ATTENTION)
                if place[0] == part and free and place not in kept:
                    yield from _free(point, place)
        return


def sign_norms(point: Point) -> Family:
    """Family 58."""
    spec, stream = point.spec, point.stream
    if spec.eps or spec.place not in ("sandwich", "after"):
        return
    two = spec.norm == "layer" and spec.d == 2
    pooled = spec.t == 1 and spec.attn == "softmax" and not (spec.sinks or spec.kvrank)
    pooled = pooled and spec.gate == "none"
    for sublayer in stream.sublayers:
        written = stream.written(sublayer)
        width = sum(point.matrices[key].ncols() for key in point.keys(written))
        if pooled and sublayer.kind == "attention":
            span = pooled_span(point, sublayer.part)
            width = width if span is None else span.whole.ncols()
        if not two and width > 1:
            continue
        for place in point.layout.by_place:
            part, name = place
            own = part == sublayer.part and (name in _ATTENTION) == (sublayer.kind == "attention")
            if own and not name.startswith("post") and (two or place not in written):
                yield from _free(point, place)


def _free(point: Point, place: Place) -> Family:
    for key in point.keys([place]):
        T = point.matrices[key]
        for i, j in product(range(T.nrows()), range(T.ncols())):
            tangent = point.zero(T.nrows(), T.ncols())
            tangent[i, j] = 1
            yield "signs", {key: tangent}
