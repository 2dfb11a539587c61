"""What is the basis of tokens between layers, and what is unread or unreached? Families 1 to 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from segre.referee.mixed.heads import Head
from segre.referee.mixed.point import Point
from segre.referee.mixed.spans import Spans, Unit, inner_columns, kernel, outputs
from segre.referee.transformers.point import Family, Tangent, together
from segre.referee.transformers.point import product as times
from segre.referee.transformers.tensors import Key


def readers(head: Head) -> list[Key]:
    """The maps of tokens: W_K, W_K+1, ..., W_Q, W_V, W_V+1, ..., W_G."""
    return [*head.taps("W_K"), head.key("W_Q"), *head.values, *head.gates]


def reach(point: Point, spans: Spans, layer: int) -> Family:
    """Families 1 to 3 of a layer that is numbered from 1."""
    for tangent in _between(point, layer):
        yield "between", tangent
    for tangent in _unread(point, spans, layer):
        yield "unread", tangent
    for tangent in _unreached(point, spans, layer):
        yield "unreached", tangent


def _between(point: Point, layer: int) -> Iterator[Tangent]:
    if layer == len(point.layout.layers):
        return
    here, there = point.layout.heads(layer), point.layout.heads(layer + 1)
    diagonal = here[0].dv is None and any(head.rowwise for head in here)
    writers = [key for head in here for key in head.last]
    reading = [key for head in there for key in readers(head)]
    d = here[0].width_out
    for j, k in product(range(d), repeat=2):
        if j == k or not diagonal:
            yield together(
                point.left(writers, point.unit(d, (j, k, 1))),
                point.right(reading, point.unit(d, (j, k, -1))),
            )


def _unread(point: Point, spans: Spans, layer: int) -> Iterator[Tangent]:
    R = spans.forms[layer]
    if R is None:
        return
    for head in point.layout.heads(layer):
        if head.dv is None and head.rowwise:
            continue
        for key, n in product(head.last, kernel(R) or []):
            for c in range(point.matrices[key].ncols()):
                yield point.column(key, c, n)
    for unit in spans.units[layer - 1]:
        out = outputs(unit, point.matrices)
        if out is None or unit.rowwise:
            continue
        for n in kernel(times(R, out)) or []:
            for maps in zip(*(head.values for head in unit.heads), strict=True):
                for c in range(unit.heads[0].width_in):
                    yield together(
                        *(
                            point.column(key, c, part)
                            for key, part in zip(maps, _cut(unit, n), strict=True)
                        )
                    )


def _unreached(point: Point, spans: Spans, layer: int) -> Iterator[Tangent]:
    B = spans.images[layer - 1]
    if B is None:
        return
    missed = kernel(B.transpose()) or []
    for head in point.layout.heads(layer):
        for key, f in product(readers(head), missed):
            for r in range(point.matrices[key].nrows()):
                yield point.row(key, r, f)
    for unit in spans.units[layer - 1]:
        first = unit.heads[0]
        if first.dv is None or unit.rowwise:
            continue
        for f in kernel(inner_columns(unit, point.matrices, B).transpose()) or []:
            parts = list(zip(unit.heads, _cut(unit, f), strict=True))
            for r in range(first.width_out):
                yield together(*(point.row(head.key("W_O"), r, part) for head, part in parts))


def _cut(unit: Unit, vector: Sequence[int]) -> list[Sequence[int]]:
    """A vector cut into one part for each head."""
    v = unit.heads[0].inner
    return [vector[i * v : (i + 1) * v] for i in range(len(unit.heads))]
