"""Along which tangents is the stream written in other coordinates? Families 24 to 27, and 30."""

from __future__ import annotations

from collections.abc import Iterator

from segre.referee.transformers.means import scaled_producers, table_is_scaled
from segre.referee.transformers.norms import tied_shift
from segre.referee.transformers.stream import HEAD_ACTOR, Spot
from segre.referee.transformers.tangents import Family, Point, Tangent, together
from segre.referee.transformers.units import bound_table
from segre.referee.transformers.weights import EMBED, HEAD, parts, shows_stream, table_reads


def turns(point: Point) -> Family:
    """All tangents of these families."""
    for spot in point.stream.joint_spots:
        if spot.free:
            yield from _stream_turns(point, spot)
            for tangent in _stream_scale(point, spot):
                yield "stream-scale", tangent
    for tangent in _embedding(point):
        yield "embedding-turns" if point.spec.embnorm else "embedding-basis", tangent
    for spot in point.stream.spots:
        for tangent in _stream_shift(point, spot):
            yield "stream-shift", tangent
    for tangent in _head_shift(point):
        yield "stream-shift", tangent
    for tangent in _parallel_bias(point):
        yield "parallel-bias", tangent


def _normed(point: Point, spot: Spot) -> bool:
    spec, stream = point.spec, point.stream
    return spec.norm != "none" and (
        spec.place == "post"
        or any(stream.norm_before(consumer) is not None for consumer in spot.consumers)
        or any(
            stream.norm_after(producer) is not None
            for producer in spot.producers
            if producer.kind != "embedding"
        )
    )


def _stream_turns(point: Point, spot: Spot) -> Family:
    spec, stream = point.spec, point.stream
    if spot.reads("head") and shows_stream(spec):
        return
    norms = [stream.norm_after(producer) for producer in spot.producers]
    if any(norm is not None and point.has(norm.gain) for norm in norms):
        return
    if spot.writes("embedding") and spec.embnorm:
        return
    table_writes = spot.writes("embedding") and not spec.embed
    tied_here = table_reads(spec) and spot.reads("head")
    if spec.tied and table_writes != tied_here:
        return
    if tied_here and spec.final and spec.gain:
        return
    normed = _normed(point, spot)
    if normed or tied_here:
        name, basis = "stream-turns", point.skew(spec.d, normed and spec.norm == "layer")
    else:
        name, basis = "stream-basis", point.square(spec.d)
    written = point.keys(place for actor in spot.producers for place in stream.written(actor))
    for S in basis:
        parts = [point.left(written, S)]
        for consumer in spot.consumers:
            norm = stream.norm_before(consumer)
            G, inverse = point.gain(norm, spec.d)
            turned = G * S * inverse
            if not (tied_here and consumer == HEAD_ACTOR):
                keys = point.keys(reader.weight for reader in stream.readers(consumer))
                parts.append(point.right(keys, -turned))
            if norm is not None:
                parts.append(point.left(point.keys([norm.bias]), turned))
        yield name, together(*parts)


def _stream_scale(point: Point, spot: Spot) -> Iterator[Tangent]:
    spec, stream = point.spec, point.stream
    if spec.eps or spec.place == "post" or not _normed(point, spot):
        return
    parts = scaled_producers(point, spot)
    if parts is None:
        return
    if table_is_scaled(point, parts):
        norm = stream.norm_before_table()
        if norm is None or not point.has(norm.gain):
            return
        parts.append(point.itself([norm.gain, norm.bias], -1))
    for consumer in spot.consumers:
        if stream.norm_before(consumer) is None:
            if not stream.readers(consumer):
                return
            places = (reader.weight for reader in stream.readers(consumer))
            parts.append(point.itself(places, -1))
    yield together(*parts)


def _embedding(point: Point) -> Iterator[Tangent]:
    spec, stream = point.spec, point.stream
    if spec.project:
        yield from _projection(point)
        return
    if not spec.embed or spec.tied:
        return
    norm = stream.norm_after(stream.producers[0])
    basis = point.square(spec.embed)
    if norm is not None:
        basis = point.skew(spec.embed, spec.norm == "layer")
    G, inverse = point.gain(norm, spec.embed)
    tables = point.keys((EMBED, name) for name in ("tokens", "positions", "types"))
    for S in basis:
        turned = G * S * inverse
        parts = [point.left(tables, S), point.right([(EMBED, "W_E", 0)], -turned)]
        if norm is not None:
            parts.append(point.left(point.keys([norm.bias]), turned))
        yield together(*parts)


def _projection(point: Point) -> Iterator[Tangent]:
    """Other coordinates of the embeddings, and of what the unembedding reads."""
    spec = point.spec
    tokens, W_E = (EMBED, "tokens", 0), (EMBED, "W_E", 0)
    W_D, W_U = (HEAD, "W_D", 0), (HEAD, "W_U", 0)
    for S in point.square(spec.embed):
        tangent = together(point.left([tokens], S), point.right([W_E], -S))
        yield together(tangent, point.left([W_D], -S.transpose())) if spec.tied else tangent
        if W_U in point.matrices:
            yield together(point.left([W_D], S), point.right([W_U], -S))


def _stream_shift(point: Point, spot: Spot) -> Iterator[Tangent]:
    spec, stream = point.spec, point.stream
    written = spec.bias in ("attn", "mlp", "mlp-norm", "all")
    if not written or not (spec.norm == "none" or spec.place == "post"):
        return
    if spot.reads("output"):
        return
    last = stream.norm_after(stream.producers[-1])
    table = table_reads(spec)
    absorbs = spec.outbias if table else all(r.bias for r in stream.readers(HEAD_ACTOR))
    if spot.reads("head") and not absorbs:
        constant = last is not None and point.has(last.bias)
        if table or spec.norm != "layer" or spec.place != "post" or not constant:
            return
    # In parallel layers one of two writers is enough, and one of two takes the shift back.
    takers = spot.consumers[:1] if spec.parallel else spot.consumers
    sources = [stream.shift_source(producer) for producer in spot.producers]
    if spec.parallel:
        able = [source for source in sources if source is not None]
        sources = [able[-1] if able else None]
    if any(source is None or bound_table(point, source) for source in sources):
        return
    for i in range(spec.d):
        parts: list[Tangent | None] = [
            point.shifted(source, 1, row=i) for source in sources if source is not None
        ]
        for consumer in spot.consumers:
            of_head = consumer == HEAD_ACTOR
            norm = last if of_head else None
            parts += [point.absorbed(reader, i, norm) for reader in stream.readers(consumer)]
            if of_head and table:
                parts.append(tied_shift(point, i))
            bias = None if of_head else stream.bias(consumer)
            if bias is not None and spec.residual and consumer in takers:
                key = (*bias, 0)
                parts.append({key: -point.filled(key, row=i)[key]})
            elif not of_head and spec.residual and consumer in takers:
                parts.append(None)  # what the skip carries on stays
        kept = [part for part in parts if part is not None]
        if len(kept) == len(parts):
            yield together(*kept)


def _head_shift(point: Point) -> Iterator[Tangent]:
    """A shift by the last sublayer, which only the head reads, and not through a norm."""
    spec, stream = point.spec, point.stream
    if spec.norm == "none" or spec.place == "post" or spec.final or spec.output == "hidden":
        return
    last = stream.producers[-1]
    source = stream.shift_source(last)
    if source is None and spec.parallel:
        last = stream.sequence[-2]
        source = stream.shift_source(last)
    absorbs = all(reader.bias is not None for reader in stream.readers(HEAD_ACTOR))
    tied = table_reads(spec)
    if source is None or not absorbs or stream.occurrences(last) > 1:
        return
    if tied and not spec.outbias:
        return
    for i in range(spec.d):
        parts = [point.absorbed(reader, i, None) or {} for reader in stream.readers(HEAD_ACTOR)]
        if tied:
            parts.append(tied_shift(point, i))
        yield together(point.shifted(source, 1, row=i), *parts)


def _parallel_bias(point: Point) -> Iterator[Tangent]:
    """Both sublayers of a parallel layer add their bias to the same stream."""
    if not point.spec.parallel:
        return
    for part in parts(point.spec):
        attention, units = (part, "b_O", 0), (part, "b_down", 0)
        if attention in point.matrices and units in point.matrices:
            for i in range(point.spec.d):
                shift = point.filled(attention, row=i)
                yield together(shift, {units: -point.filled(units, row=i)[units]})
