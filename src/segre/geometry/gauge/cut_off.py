"""Symmetries without skips: directions that a narrow layer does not pass on."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.silent import free_entries
from segre.geometry.gauge.unreached import pooled_width, read_dimension, sole_producer
from segre.geometry.gauge.unread import in_each_column
from segre.geometry.gauge.wiring import (
    End,
    Place,
    norm_after,
    norm_before,
    own_sublayers,
    places,
    readers,
    sublayers,
    where,
    writer_bias,
    writers,
)
from segre.geometry.reach import annihilator
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes, parts


def cut_off_pieces(spec: Transformer) -> Iterator[Piece]:
    """Where readers have few rows, and where a norm at eps = 0 reads multiples of one vector."""
    if spec.residual or spec.parallel or spec.patch:
        return
    for place in places(spec, carried=False):
        if place.free and _rows(spec, place) < spec.d:
            yield from (_unread(spec, place, end) for end in place.producers)
    yield from _signs(spec)


def _reading(spec: Transformer, place: Place) -> list[tuple[str, str]]:
    """The tensors that read a place; those of scores do not count if there is one token."""
    silent = spec.t == 1 and spec.sums_to_one and not spec.latent
    found = [(r.part, r.weight) for end in place.consumers for r in readers(spec, end)]
    return [key for key in found if not (silent and key[1] in ("W_Q", "W_K"))]


def _rows(spec: Transformer, place: Place) -> int:
    """How many forms are read at a place; all, where a norm or a tied table reads or writes."""
    normed = any(norm_before(spec, end) for end in place.consumers)
    normed |= any(norm_after(spec, end) for end in place.producers)
    tied = spec.tied and (("embed", "") in place.producers or ("head", "") in place.consumers)
    if normed or tied or spec.embed or spec.embscale:
        return spec.d
    return sum(prod(part_shapes(spec, p)[name][:-1]) for p, name in _reading(spec, place))


def _unread(spec: Transformer, place: Place, end: End) -> Piece:
    part, bias = end[0], writer_bias(spec, end)
    names = [*writers(spec, end), *([bias] if bias else [])]

    def build(w: ModularWeights) -> Array:
        forms = np.concatenate([w(*key).reshape(-1, spec.d) for key in _reading(spec, place)])
        rows = [np.zeros((0, spec.parameters))]
        for vector in annihilator(w.field, np.ascontiguousarray(forms)):
            rows += [in_each_column(w, spec, part, name, vector) for name in names]
        return np.concatenate(rows)

    title = f"output of the {end[1] or 'embedding'} in directions that the next layer does not read"
    return Piece("unread", title, where(spec, part), "residual", "exact", 0, build)


def _signs(spec: Transformer) -> Iterator[Piece]:
    """A norm of multiples of one vector is a sign: what comes before that vector is free."""
    if spec.eps or spec.norm == "none" or spec.tied or (spec.share and spec.layers > 1):
        return
    pooled = spec.t == 1 and spec.sums_to_one and spec.gate == "none"
    order = sublayers(spec)
    for end in reversed((*order, ("head", ""))):
        producer = sole_producer(spec, end)
        if producer is None or producer not in order or norm_before(spec, end) is None:
            continue
        if read_dimension(spec, end, pooled=pooled and producer[1] == "attention") > 1:
            continue
        kept = {*writers(spec, producer), writer_bias(spec, producer)}
        kept |= {"W_V"} if spec.latent else set()  # the vector may be W_O W_V
        before = order[: order.index(producer) + 1]
        yield from _before(spec, before, kept)
        return


def _before(spec: Transformer, before: tuple[End, ...], kept: set[str | None]) -> Iterator[Piece]:
    title = "weights before a norm of multiples of one vector, which keeps only a sign"
    last = before[-1]
    after = [end for end in own_sublayers(spec) if end not in before]
    for part in parts(spec)[:-1]:
        names = list(part_shapes(spec, part))
        if part == last[0]:
            names = [n for n in names if n not in kept]
        if any(end[0] == part for end in after):  # its MLP comes later
            names = [n for n in names if n in _ATTENTION]
        if part == "embed" or any(end[0] == part for end in before):
            yield free_entries(spec, part, names, "signs", title)


def sign_norm_pieces(spec: Transformer) -> Iterator[Piece]:
    """A norm, at eps = 0, of what a sublayer writes along one vector, or of two numbers."""
    if spec.eps or spec.place not in ("sandwich", "after"):
        return
    two = spec.norm == "layer" and spec.d == 2
    pooled = spec.t == 1 and spec.sums_to_one and spec.gate == "none" and not spec.latent
    for end in own_sublayers(spec):
        shapes = part_shapes(spec, end[0])
        bias = writer_bias(spec, end)
        written = [*writers(spec, end), *([bias] if bias else [])]
        width = sum(prod(shapes[name]) // spec.d for name in written)
        if pooled and end[1] == "attention":
            width = pooled_width(spec) + (bias is not None)
        if two or width == 1:
            own = [n for n in shapes if (n in _ATTENTION) == (end[1] == "attention")]
            own = [
                n for n in own if not n.startswith(("post", "scale")) and (two or n not in written)
            ]
            title = "weights before a norm that keeps only a sign"
            yield free_entries(spec, end[0], own, "signs", title)


_ATTENTION = (
    {"sinks", "normo.gain"}
    | {f"{x}_{y}" for x in ("W", "b", "A", "R") for y in ("Q", "K", "V", "G", "O")}
    | {f"norm{n}.{x}" for n in ("1", "q", "k") for x in ("gain", "bias")}
)
