"""Along which tangents do means and lengths go unseen? Families 21 to 23 of section 9."""

from __future__ import annotations

from collections.abc import Iterator

from segre.referee.transformers.stream import HEAD_ACTOR, Actor, Spot
from segre.referee.transformers.tangents import Family, Point, Tangent, together
from segre.referee.transformers.units import bound_table
from segre.referee.transformers.weights import EMBED, HEAD, Place, table_reads


def means(point: Point) -> Family:
    """All tangents of these families."""
    if point.spec.norm == "none":
        return
    families = {
        "carried-mean": _carried_mean,
        "mean-forms": _mean_forms,
        "norm-scale": _norm_scale,
    }
    for name, family in families.items():
        for tangent in family(point):
            yield name, tangent


def _carried_mean(point: Point) -> Iterator[Tangent]:
    """A shift of the stream along 1, taken back later: only norms read it in between."""
    spec, stream = point.spec, point.stream
    if spec.norm != "layer" or spec.place == "post" or not spec.residual:
        return
    (spot,) = stream.joint_spots
    sources = []
    for producer in spot.producers:
        bare = not spec.firstnorm and producer == stream.producers[0]
        if bare or stream.only_norms_read(spot, producer):
            continue
        place = stream.shift_source(producer)
        if place is not None and not bound_table(point, place):
            sources.append((place, stream.occurrences(producer)))
    for place, count in sources[:-1]:
        last, times = sources[-1]
        yield together(point.shifted(place, times), point.shifted(last, -count))


def _mean_forms(point: Point) -> Iterator[Tangent]:
    """A linear form of the embedding, added to it along 1, and subtracted by those that read."""
    spec, stream = point.spec, point.stream
    if spec.norm != "layer" or not spec.vocab or spec.place != "post":
        return
    if not spec.embed and (spec.embnorm or spec.tied):
        return
    first = stream.consumers[0]
    embedding, *others = stream.producers_for(first)
    if len(others) > 1:
        return
    after = stream.norm_after(others[0]) if others else None
    forms = [point.field.unit(1, spec.d, 0, i) for i in range(spec.d)]
    if after is not None:
        forms = [point.mean_form(after)]
    column = point.field.ones(spec.d, 1)
    for form in forms:
        parts: list[Tangent] = [point.left(point.keys(stream.written(embedding)), column * form)]
        kappa = 0
        if after is not None and point.has(after.bias):
            source = stream.shift_source(embedding)
            if source is None:
                continue
            kappa = point.mean_value(after)
            parts.append(point.shifted(source, -kappa))
        for reader in stream.readers(first):
            for number, key in enumerate(point.keys([reader.weight])):
                sums = point.matrices[key] * column
                parts.append({key: -(sums * form)})
                if kappa and reader.bias is not None:
                    parts.append({(*reader.bias, number): sums * kappa})
        yield together(*parts)


def _norm_scale(point: Point) -> Iterator[Tangent]:
    """What is normed before it is read may have any length."""
    spec, stream = point.spec, point.stream
    if spec.eps:
        return
    if spec.place in ("sandwich", "after"):
        for sublayer in stream.sublayers:
            yield point.itself(stream.written(sublayer))
    if spec.embnorm and (not spec.tied or (spec.transform and spec.gain)):
        tangent = point.itself((EMBED, name) for name in ("tokens", "positions", "types"))
        if spec.tied:
            normT = point.itself([(HEAD, "normT.gain"), (HEAD, "normT.bias")], -1)
            tangent = together(tangent, normT)
        yield tangent
    if spec.place == "post":
        for spot in stream.spots:
            yield from _post_scale(point, spot)


def _post_scale(point: Point, spot: Spot) -> Iterator[Tangent]:
    spec, stream = point.spec, point.stream
    if not spot.free or spot.consumers == (HEAD_ACTOR,):
        return
    if spot.reads("head") and table_reads(spec):
        return
    parts = scaled_producers(point, spot)
    if parts is None:
        return
    if table_is_scaled(point, parts):
        last = stream.norm_after(stream.producers[-1])
        alone = Spot((stream.producers[-1],), (HEAD_ACTOR,)) in stream.spots
        if not alone or spec.transform or last is None or not point.has(last.gain):
            return
        parts.append(point.itself([last.gain, last.bias], -1))
    for consumer in spot.consumers:
        if consumer != HEAD_ACTOR:
            parts.append(point.itself(stream.written(consumer)))
        parts.append(point.itself((reader.weight for reader in stream.readers(consumer)), -1))
    yield together(*parts)


def table_is_scaled(point: Point, parts: list[Tangent]) -> bool:
    """Whether these tangents scale the unembedding too."""
    return point.spec.tied and any((EMBED, "tokens", 0) in part for part in parts)


def scaled_producers(point: Point, spot: Spot) -> list[Tangent] | None:
    """All that is written in a place, times a number; None if a norm without gain forbids it."""
    parts = []
    for producer in spot.producers:
        places = _lengths(point, producer)
        if places is None:
            return None
        parts.append(point.itself(places))
    return parts


def _lengths(point: Point, producer: Actor) -> list[Place] | None:
    norm = point.stream.last_norm(producer)
    if norm is None:
        return point.stream.written(producer)
    return [norm.gain, norm.bias] if point.has(norm.gain) else None
