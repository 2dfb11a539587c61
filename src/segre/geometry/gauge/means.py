"""Symmetries of LayerNorms: the mean of their input has no effect."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.absorb import inverse_gain, unit_shift
from segre.geometry.gauge.norms import read_norms, title
from segre.geometry.gauge.piece import Holds, ModularWeights, Piece
from segre.geometry.gauge.vocabulary import has_tied_mean, logits_may_shift
from segre.geometry.gauge.wiring import (
    End,
    Norm,
    Place,
    Reader,
    has,
    layer_scale,
    norm_after,
    norm_at,
    own_sublayers,
    points,
    readers,
    reads_norm,
    shift_source,
    stream_places,
    sublayers,
    where,
    writer_bias,
    writers,
)
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes

TABLES = ["tokens", "W_P", "b_P", "cls", "positions", "types"]


def mean_pieces(spec: Transformer) -> Iterator[Piece]:
    """Symmetries of LayerNorms: reading and writing along the mean that they remove."""
    if spec.norm != "layer":
        return
    yield from _read_centring(spec)
    yield from _write_centring(spec)
    yield from _carried_means(spec)
    yield from _mean_forms(spec)


def _read_centring(spec: Transformer) -> Iterator[Piece]:
    """LayerNorm outputs are orthogonal to 1 before the gain: readers may add 1^T G^-1."""
    done = list(read_norms(spec))
    if spec.place == "post":
        done = [(s, r) for s, r in done if not s.name.startswith("post")]
        for end, producers in _producers(spec).items():
            site = norm_after(spec, producers[0]) if len(producers) == 1 else None
            if site is None or (site.part == "embed" and spec.embed):
                continue
            if end[0] == "output":
                done.append((site, _pooling(spec)))
            elif end[0] != "head" or _head_reads(spec):
                done.append((site, readers(spec, end)))
    elif not spec.firstnorm:  # the first attention reads what the embeddings' norm puts out
        done.append((norm_at(spec, "embed", "norm", spec.d), readers(spec, sublayers(spec)[0])))
    elif spec.final and spec.pooler and spec.output == "hidden":
        done.append((norm_at(spec, "head", "norm", spec.d), _pooling(spec)))
    for site, read_by in done:
        for reader in read_by:
            if site.bias is None or reader.bias is not None:
                yield _centred_reader(spec, site, reader)


def _producers(spec: Transformer) -> dict[End, list[End]]:
    """The producers of a consumer's input; several, if layers share their weights."""
    out: dict[End, list[End]] = {}
    for producer, consumer in points(spec):
        if producer not in out.setdefault(consumer, []):
            out[consumer].append(producer)
    return out


def _pooling(spec: Transformer) -> list[Reader]:
    return [Reader("head", "W_pool", "b_pool")] if spec.pooler else []


def _head_reads(spec: Transformer) -> bool:
    """Whether an untied linear map reads the stream at the end."""
    return not spec.shows_stream and not spec.table_reads


def _centred_reader(spec: Transformer, site: Norm, reader: Reader) -> Piece:
    shape = part_shapes(spec, reader.part)[reader.weight]
    rows = prod(shape[:-1])

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(rows)
        inverse = inverse_gain(w, site)
        view = canvas(reader.part, reader.weight).reshape(rows, rows, -1)
        view[range(rows), range(rows)] = inverse[:, 0]
        if site.bias is not None and reader.bias is not None:
            F = w.field
            moved = F.sum(F.mul(inverse, w(site.part, site.bias)), axis=-2)[0, 0]
            bias = canvas(reader.part, reader.bias).reshape(rows, rows)
            bias[range(rows), range(rows)] = -moved
        return canvas.rows

    name = f"{reader.weight} along the mean, which the {title(site)} norm removes"
    # the sum over all rows is a shift of all logits, or of all affinities: counted there
    doubled = reader.weight == "W_U" and logits_may_shift(spec)
    doubled = doubled or (reader.weight == "W_R" and spec.softmax_router)
    at = where(spec, reader.part)
    return Piece("read-centring", name, at, "norms and biases", "exact", rows - doubled, build)


def _write_centring(spec: Transformer) -> Iterator[Piece]:
    """What is written along 1 into a stream that only LayerNorms read."""
    if spec.place != "post":
        for place in stream_places(spec):
            for end in place.producers:
                if not seen_means(spec, place, end):
                    yield from _centred_writers(spec, end, inside=False)
    if spec.embnorm:
        yield from _centred_writers(spec, ("embed", ""), inside=True)
    for end in own_sublayers(spec):
        if norm_after(spec, end) is not None:
            yield from _centred_writers(spec, end, inside=True)


def seen_means(spec: Transformer, place: Place, end: End) -> bool:
    """Whether the mean of a producer's output has an effect: some consumer has no norm.

    A first attention without a norm reads the embeddings only.
    """
    later = place.consumers
    if not spec.firstnorm and end[0] != "embed":
        later = tuple(consumer for consumer in later if consumer != sublayers(spec)[0])
    return any(not reads_norm(spec, consumer) for consumer in later)


def table_free(spec: Transformer) -> bool:
    """Whether the mean of a token's vector is free: untied, or read after a norm without gain."""
    return not spec.tied or (not spec.gain and (spec.final or spec.transform))


def _carried_means(spec: Transformer) -> Iterator[Piece]:
    """A mean that only the output depends on: it can be written anywhere, as a constant."""
    if spec.place == "post" or not spec.residual:
        return
    for place in stream_places(spec):
        sources = []
        for end in place.producers:
            if not seen_means(spec, place, end) or (end[0] == "embed" and not spec.firstnorm):
                continue
            source = shift_source(spec, end)
            if source is not None and (source != ("embed", "tokens") or _table_shifts(spec)):
                sources.append((source, max(1, sublayers(spec).count(end))))
        if len(sources) > 1:
            tied = spec.tied and sources[0][0] == ("embed", "tokens")
            yield _carried(sources, "softmax" if tied else "exact")


def _table_shifts(spec: Transformer) -> bool:
    """Whether one vector may be added to all tokens, as far as the output is concerned."""
    return not spec.tied or logits_may_shift(spec)


def _carried(sources: list[tuple[tuple[str, str], int]], holds: Holds) -> Piece:
    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(len(sources) - 1)
        (last, times), rest = sources[-1], sources[:-1]
        for row, (source, often) in enumerate(rest):
            canvas(*source)[row] = w.field.reduce(times * unit_shift(w, source))
            canvas(*last)[row] = -often
        return canvas.rows

    name = "means, which no norm reads, moved from one bias to a later one"
    count = len(sources) - 1
    return Piece("carried-mean", name, "residual stream", "norms and biases", holds, count, build)


def _mean_forms(spec: Transformer) -> Iterator[Piece]:
    """The first sublayer before a skip and its LayerNorm may read x + 1 m(x) instead of x.

    The skip's norm takes 1 m(x) away, the readers take it back. Where layers share their weights
    these readers read the last norm's output too, so that m must be constant there.
    """
    first = sublayers(spec)[0]
    producers = _producers(spec)[first]
    if spec.place != "post" or producers[0][0] != "embed" or len(producers) > 2:
        return
    if (spec.embnorm or spec.tied) and not spec.embed:
        return
    other = norm_after(spec, producers[1]) if len(producers) == 2 else None
    source = shift_source(spec, producers[0])
    if other is not None and other.bias is not None and source is None:
        return
    bias = writer_bias(spec, producers[0])
    written = [*writers(spec, producers[0]), *([bias] if bias else [])]

    def build(w: ModularWeights) -> Array:
        F = w.field
        forms = np.eye(spec.d) if other is None else inverse_gain(w, other).T
        canvas = w.canvas(len(forms))
        for name in written:
            value = w("embed", name)
            canvas("embed", name)[...] = F.matmul(forms, value)[:, None, :]
        for reader in readers(spec, first):
            sums = F.sum(w(reader.part, reader.weight), axis=-1)
            for row, m in enumerate(forms):
                canvas(reader.part, reader.weight)[row] = -F.mul(sums, m)
                if other is not None and other.bias is not None and reader.bias is not None:
                    kappa = F.matmul(m[None], w(other.part, other.bias))
                    canvas(reader.part, reader.bias)[row] = F.mul(sums, kappa)
        if other is not None and other.bias is not None and source is not None:
            kappa = F.mul(F.matmul(forms, w(other.part, other.bias)), unit_shift(w, source))
            canvas(*source)[...] = F.sub(canvas(*source), kappa[..., None])
        return F.reduce(canvas.rows)

    name = "a linear form of the embedding added to its mean, which the next norm removes"
    count = spec.d if other is None else 1
    yield Piece("mean-forms", name, "embedding", "norms and biases", "exact", count, build)


def _centred_writers(spec: Transformer, end: End, inside: bool) -> Iterator[Piece]:
    """`inside`: the writers before the producer's own norm; else what reaches the stream."""
    if end[0] == "input":
        if has(spec, "embed", "positions"):
            yield _centred(spec, ("embed", "positions"))
        return
    site = norm_after(spec, end)
    tables = end[0] == "embed" and (inside or not spec.embed)
    if not inside and site is not None and not (end[0] == "embed" and spec.embed):
        if site.bias is not None:
            yield _centred(spec, (end[0], site.bias))
        return
    names = TABLES if tables else writers(spec, end)
    for name in names:
        if has(spec, end[0], name) and (name != "tokens" or table_free(spec)):
            yield _centred(spec, (end[0], name))
    bias = None if tables else writer_bias(spec, end)
    if bias is not None:
        yield _centred(spec, (end[0], bias))


def _centred(spec: Transformer, tensor: tuple[str, str]) -> Piece:
    shape = part_shapes(spec, tensor[0])[tensor[1]]
    count = prod(shape) // shape[-2]
    # constants along 1 may have been moved between the tables already
    free = spec.discrete and table_free(spec) and not spec.project
    moved = {
        "positions": spec.unused_positions + free + (spec.patch > 0) + spec.cls,
        "types": int(free or has(spec, "embed", "positions")),
        "tokens": int(has_tied_mean(spec)),
    }

    scale = layer_scale(spec, tensor)

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(count)
        columns = (*shape[:-2], shape[-1])
        ones = 1 if scale is None else w.inverse(tensor[0], scale)[:, 0]
        for row, (*outer, c) in enumerate(np.ndindex(*columns)):
            canvas(*tensor)[(row, *outer, slice(None), c)] = ones
        return canvas.rows

    name = f"{tensor[1]} along the mean, which the next norm removes"
    at = where(spec, tensor[0])
    added = count - moved.get(tensor[1], 0)
    return Piece("write-centring", name, at, "norms and biases", "exact", added, build)
