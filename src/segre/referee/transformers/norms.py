"""Along which tangents do norms hide a change? Families 17 to 20 of section 9."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from segre.referee.transformers.heads import gains
from segre.referee.transformers.stream import HEAD_ACTOR, OUTPUT, Actor, Norm, Reader
from segre.referee.transformers.tangents import Family, Point, Tangent, together
from segre.referee.transformers.weights import (
    EMBED,
    HEAD,
    Key,
    Place,
    head_width,
    parts,
    shows_stream,
    table_reads,
)

Reading = tuple[Norm, list[Reader]]
_SCALED = {"W_O": 1, "b_O": 1, "W_down": 2, "b_down": 2}  # by which scale of a layer, if there is


def norms(point: Point) -> Family:
    """All tangents of these families."""
    if point.spec.norm == "none":
        return
    families = {
        "gain": _gain,
        "norm-bias": _norm_bias,
        "read-centring": _read_centring,
        "write-centring": _write_centring,
        "layer-scale": _layer_scale,
    }
    for name, family in families.items():
        for tangent in family(point):
            yield name, tangent


def _read_norms(point: Point) -> Iterator[Reading]:
    """Norms whose output is read by linear maps only; post norms with place post left out."""
    spec, stream = point.spec, point.stream
    for sublayer in stream.sublayers:
        norm = stream.norm_before(sublayer)
        if norm is not None:
            yield norm, stream.readers(sublayer)
    if spec.embnorm and spec.embed:
        yield Norm(EMBED, "norm", spec.embed), [stream.reader((EMBED, "W_E"))]
    if shows_stream(spec):
        return
    if spec.final and not table_reads(spec):
        yield Norm(HEAD, "norm", spec.d), stream.readers(HEAD_ACTOR)
    if spec.transform and spec.headnorm and not spec.tied:
        yield Norm(HEAD, "normT", head_width(spec)), [stream.reader((HEAD, "W_U"))]


def _last_post_norm(point: Point) -> Iterator[Reading]:
    """With place post, the norm that only the head reads."""
    spec, stream = point.spec, point.stream
    last = stream.producers[-1]
    if spec.place != "post" or shows_stream(spec) or table_reads(spec):
        return
    norm = stream.norm_after(last)
    if norm is not None and stream.producers.count(last) == 1:
        yield norm, stream.readers(HEAD_ACTOR)


def _gain(point: Point) -> Iterator[Tangent]:
    for norm, readers in [*_read_norms(point), *_last_post_norm(point)]:
        if point.has(norm.gain):
            yield from gains(point, norm, readers)


def _norm_bias(point: Point) -> Iterator[Tangent]:
    spec = point.spec
    for norm, readers in _read_norms(point):
        if not point.has(norm.bias):
            continue
        for i in range(norm.width):
            changes = [point.absorbed(reader, i, norm) for reader in readers]
            kept = [change for change in changes if change is not None]
            yield together(point.filled((*norm.bias, 0), row=i), *kept)
    before = point.stream.norm_before_table()
    if spec.tied and spec.outbias and before is not None and point.has(before.bias):
        for i in range(before.width):
            yield together(point.filled((*before.bias, 0), row=i), tied_shift(point, i))


def tied_shift(point: Point, dimension: int) -> Tangent:
    """db_U = minus a row of the tied table: it undoes a shift of what the table reads."""
    table = point.matrices[EMBED, "tokens", 0]
    row = point.field.unit(1, table.nrows(), 0, dimension) * table
    return {(HEAD, "b_U", 0): -row.transpose()}


def _read_centring(point: Point) -> Iterator[Tangent]:
    if point.spec.norm != "layer":
        return
    others = [*_sole_post_norms(point), *_bare_attention(point), *_pooled(point)]
    for norm, readers in [*_read_norms(point), *others]:
        form, constant = point.mean_form(norm), point.mean_value(norm)
        biased = point.has(norm.bias)
        for reader in readers:
            if biased and reader.bias is None:
                continue
            tensor = point.layout.by_place[reader.weight]
            for number, key in enumerate(tensor.keys):
                for row in range(tensor.rows):
                    tall = point.field.unit(tensor.rows, 1, row, 0)
                    tangent: Tangent = {key: tall * form}
                    if biased and reader.bias is not None:
                        tangent[*reader.bias, number] = tall * -constant
                    yield tangent


def _sole_post_norms(point: Point) -> Iterator[Reading]:
    """With place post, the norm that is all that a consumer reads."""
    spec, stream = point.spec, point.stream
    if spec.place != "post":
        return
    for consumer in dict.fromkeys(stream.consumers):
        producers = stream.producers_for(consumer)
        if consumer == OUTPUT or len(producers) > 1:
            continue
        if consumer == HEAD_ACTOR and table_reads(spec):
            continue
        norm = stream.last_norm(producers[0])
        if norm is not None:
            yield norm, stream.readers(consumer)


def _bare_attention(point: Point) -> Iterator[Reading]:
    """A first attention without a norm reads what the norm of the embeddings puts out."""
    stream = point.stream
    norm = stream.norm_after(stream.producers[0])
    if not point.spec.firstnorm and norm is not None:
        yield norm, stream.readers(stream.consumers[0])


def _pooled(point: Point) -> Iterator[Reading]:
    spec, stream = point.spec, point.stream
    if not spec.pooler or spec.output != "hidden":
        return
    reader = stream.reader((HEAD, "W_pool"))
    norm = Norm(HEAD, "norm", spec.d) if spec.final else None
    if spec.place == "post" and len(stream.producers_for(stream.consumers[-1])) == 1:
        norm = stream.norm_after(stream.producers[-1])
    if norm is not None:
        yield norm, [reader]


def _write_centring(point: Point) -> Iterator[Tangent]:
    spec, stream = point.spec, point.stream
    if spec.norm != "layer":
        return
    places: list[Place] = []
    if spec.place != "post":
        for spot in stream.joint_spots:
            for producer in spot.producers:
                if stream.only_norms_read(spot, producer):
                    places += _shifted_by(point, producer)
    tokens: Place = (EMBED, "tokens")
    if spec.embnorm:
        places += [tokens, (EMBED, "positions"), (EMBED, "types")]
    for sublayer in stream.sublayers:
        if stream.norm_after(sublayer) is not None:
            places += stream.written(sublayer)
    if spec.tied and (spec.gain or not (spec.final or spec.transform)):
        places = [place for place in places if place != tokens]
    for key in point.keys(dict.fromkeys(places)):
        yield from _columns(point, key)


def _shifted_by(point: Point, producer: Actor) -> list[Place]:
    norm = point.stream.last_norm(producer)
    if producer.kind == "input":
        return [(EMBED, "positions")]
    if norm is not None:
        return [norm.bias]
    return point.stream.written(producer)


def _columns(point: Point, key: Key) -> Iterator[Tangent]:
    """1 in a column; over the scale of what it writes, if it has one."""
    scale = (key[0], f"scale{_SCALED[key[1]]}", 0) if key[1] in _SCALED else None
    for column in range(point.matrices[key].ncols()):
        tangent = point.filled(key, column=column)
        if scale is not None and scale in point.matrices:
            inverse = point.field.diagonal(point.field.inverses(point.matrices[scale]))
            tangent = {key: inverse * tangent[key]}
        yield tangent


def _layer_scale(point: Point) -> Iterator[Tangent]:
    """What a sublayer writes is multiplied by a vector, or written so."""
    for part, number in product(parts(point.spec), (1, 2)):
        scale = (part, f"scale{number}", 0)
        if scale not in point.matrices:
            continue
        written = point.keys((part, name) for name, own in _SCALED.items() if own == number)
        for i in range(point.spec.d):
            unit = point.unit(point.spec.d, (i, i, 1))
            yield together(point.left([scale], unit), point.left(written, -unit))
