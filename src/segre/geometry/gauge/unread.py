"""Symmetries of streams wider than what the head reads: the last layer writes there freely."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.vocabulary import logits_may_shift
from segre.geometry.gauge.wiring import End, sublayers, where, writer_bias, writers
from segre.geometry.reach import annihilator
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes


def unread_pieces(spec: Transformer) -> Iterator[Piece]:
    """Where no norm stands between the last layer and an unembedding to few words."""
    if spec.output == "hidden" or spec.final or spec.place != "pre":
        return
    if spec.transform or spec.pooler:
        return
    if not 0 < (spec.labels or spec.vocab) - logits_may_shift(spec) < spec.d:
        return
    for end in sublayers(spec)[-2 if spec.parallel else -1 :]:
        if sublayers(spec).count(end) == 1:
            yield _unread(spec, end)


def _unread(spec: Transformer, end: End) -> Piece:
    part, bias = end[0], writer_bias(spec, end)
    names = [*writers(spec, end), *([bias] if bias else [])]

    def build(w: ModularWeights) -> Array:
        table = w("embed", "tokens").T if spec.tied else w("head", "W_U")
        if logits_may_shift(spec):
            table = w.field.sub(table[1:], table[:1])
        rows = [np.zeros((0, spec.parameters))]
        for vector in annihilator(w.field, np.ascontiguousarray(table)):
            rows += [in_each_column(w, spec, part, name, vector) for name in names]
        return np.concatenate(rows)

    name = f"output of the {end[1]} in directions that the head does not read"
    return Piece("unread", name, where(spec, part), "residual", "exact", 0, build)


def in_each_column(
    w: ModularWeights, spec: Transformer, part: str, name: str, vector: Array
) -> Array:
    """A vector of the stream added to each column of what writes to it, one after the other."""
    shape = part_shapes(spec, part)[name]
    count = prod(shape) // spec.d
    canvas = w.canvas(count)
    view = np.moveaxis(canvas(part, name), -2, -1).reshape(count, count, spec.d)
    view[range(count), range(count)] = vector
    moved = view.reshape(count, *shape[:-2], shape[-1], spec.d)
    canvas(part, name)[...] = np.moveaxis(moved, -1, -2)
    return canvas.rows
