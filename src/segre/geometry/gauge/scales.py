"""Symmetries of norms at eps = 0: the scale of their input has no effect."""

from __future__ import annotations

from collections.abc import Iterator

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.wiring import (
    End,
    Norm,
    ends,
    has,
    norm_after,
    own_sublayers,
    places,
    readers,
    where,
    writer_bias,
    writers,
)
from segre.transformer.spec import Transformer


def scale_pieces(spec: Transformer) -> Iterator[Piece]:
    """At eps = 0 a norm is invariant under scaling of its input."""
    if spec.eps or spec.norm == "none":
        return
    if spec.normed_inside:
        for end in own_sublayers(spec):
            yield _writer_scale(spec, end)
    if spec.embnorm and not (spec.tied and not (spec.transform and spec.gain)):
        yield _embedding_scale(spec)
    if spec.place == "post":
        for place in places(spec, carried=False):
            if place.free and place.consumers != (("head", ""),):
                yield from _post_scale(spec, place.producers, place.consumers)


def _writer_scale(spec: Transformer, end: End) -> Piece:
    bias = writer_bias(spec, end)
    names = [*writers(spec, end), *([bias] if bias else [])]

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(1)
        for name in names:
            canvas(end[0], name)[0] = w(end[0], name)
        return canvas.rows

    name = f"scale of the {end[1]} output, before its norm"
    return Piece("norm-scale", name, where(spec, end[0]), "norms and biases", "eps=0", 1, build)


def _embedding_scale(spec: Transformer) -> Piece:
    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(1)
        for name in ("tokens", "positions", "types"):
            if has(spec, "embed", name):
                canvas("embed", name)[0] = w("embed", name)
        if spec.tied:
            for name in ("normT.gain", "normT.bias"):
                if has(spec, "head", name):
                    canvas("head", name)[0] = -w("head", name)
        return canvas.rows

    name = "scale of the embeddings, before their norm"
    return Piece("norm-scale", name, "embedding", "norms and biases", "eps=0", 1, build)


def _post_scale(
    spec: Transformer, producers: tuple[End, ...], consumers: tuple[End, ...]
) -> Iterator[Piece]:
    """The stream before a skip and its norm: what is written, read and carried changes scale."""
    head = ("head", "")
    if head in consumers and spec.table_reads:
        return
    written: list[tuple[str, str]] = []
    for end in producers:
        site = norm_after(spec, end)
        if site is None or (end[0] == "embed" and spec.embed):
            bias = writer_bias(spec, end)
            written += [(end[0], n) for n in [*writers(spec, end), *([bias] if bias else [])]]
        elif site.gain is None:
            return
        else:
            written += [(end[0], n) for n in (site.gain, site.bias) if n]
    lowered: list[tuple[str, str]] = []
    if spec.tied and ("embed", "tokens") in written:  # the table reads too
        last = _last_norm(spec)
        if last is None or last.gain is None:
            return
        lowered = [(last.part, n) for n in (last.gain, last.bias) if n]
    for end in consumers:
        if end != head:
            bias = writer_bias(spec, end)
            written += [(end[0], n) for n in [*writers(spec, end), *([bias] if bias else [])]]
    read = lowered + [(r.part, r.weight) for end in consumers for r in readers(spec, end)]

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(1)
        for tensor in written:
            canvas(*tensor)[0] = w(*tensor)
        for tensor in read:
            canvas(*tensor)[0] = -w(*tensor)
        return canvas.rows

    name = "scale of the stream, before a skip and its norm"
    at = where(spec, ends(spec)[0][0] if producers[0][0] == "embed" else producers[0][0])
    yield Piece("norm-scale", name, at, "norms and biases", "eps=0", 1, build)


def _last_norm(spec: Transformer) -> Norm | None:
    """The norm after the last skip, if the head alone reads it: directly, by a tied table."""
    for place in places(spec, carried=False):
        if place.consumers == (("head", ""),) and len(place.producers) == 1:
            return None if spec.transform else norm_after(spec, place.producers[0])
    return None
