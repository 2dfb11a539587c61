"""Symmetries of narrow embeddings: the first layer reads nothing outside their span."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.wiring import (
    Norm,
    Reader,
    has,
    norm_after,
    readers,
    sublayers,
    where,
)
from segre.geometry.reach import annihilator
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes

EMBED = ("embed", "")


def filled_by_embeddings(spec: Transformer) -> int:
    """How many dimensions of the stream embeddings of another width fill, up to a constant."""
    centred = spec.embnorm and spec.norm == "layer"
    placed = spec.t - 1 if spec.project else 0  # positions are added in the stream
    return min(spec.d, spec.embed + placed - centred) if spec.embed else spec.d


def narrow_pieces(spec: Transformer) -> Iterator[Piece]:
    """The first layer's readers, where no embedding lies."""
    first = sublayers(spec)[0]
    if not spec.embed or spec.normed_before or sublayers(spec).count(first) > 1:
        return
    free = spec.d - filled_by_embeddings(spec)
    constant = spec.project or any(has(spec, "embed", name) for name in ("b_E", "norm.bias"))
    if free and all(reader.bias or not constant for reader in readers(spec, first)):
        yield _unreached(spec, readers(spec, first), free)


def _unreached(spec: Transformer, read_by: list[Reader], free: int) -> Piece:
    shapes = {r: part_shapes(spec, r.part)[r.weight] for r in read_by}
    rows = {reader: prod(shape[:-1]) for reader, shape in shapes.items()}
    site = norm_after(spec, EMBED)
    total = sum(rows.values())

    def build(w: ModularWeights) -> Array:
        forms = annihilator(w.field, _image(w, site, spec.norm == "layer").T)
        canvas, moved = w.canvas(total * len(forms)), _constants(w, site, forms)
        number = 0
        for reader, count in rows.items():
            view = canvas(reader.part, reader.weight).reshape(len(canvas.rows), count, -1)
            bias = None
            if reader.bias is not None:
                bias = canvas(reader.part, reader.bias).reshape(len(canvas.rows), count)
            for row in range(count):
                for form, value in zip(forms, moved, strict=True):
                    view[number, row] = form
                    if bias is not None:
                        bias[number, row] = -value
                    number += 1
        return w.field.reduce(canvas.rows)

    name = "weights of the first layer on directions without embeddings"
    # a form of the embedding added to its mean is one of these, where it vanishes on all of them
    count = free * (total - (spec.norm == "layer"))
    at = where(spec, read_by[0].part)
    return Piece("unreached", name, at, "residual", "exact", count, build)


def _image(w: ModularWeights, site: Norm | None, centred: bool) -> Array:
    """Columns that span what embeddings fill: W_E, after a norm its gain, and differences of these.

    What a LayerNorm writes is orthogonal to 1 before its gain.
    """
    image = w("embed", "W_E")
    if w.transformer.project:
        used = _used(w)
        return np.concatenate([image, w.field.sub(used[:, 1:], used[:, :1])], axis=1)
    if site is None:
        return image
    if site.gain is not None:
        image = w.field.mul(image, w("embed", site.gain)[:, 0])
    return w.field.sub(image[:, 1:], image[:, :1]) if centred else image


def _used(w: ModularWeights) -> Array:
    """The positions that tokens have."""
    spec = w.transformer
    return w("embed", "positions")[:, spec.offset : spec.offset + spec.t]


def _constants(w: ModularWeights, site: Norm | None, forms: Array) -> Array:
    """The values of forms, the same for all embeddings."""
    F, spec = w.field, w.transformer
    total = F.sub(forms[:, :1], forms[:, :1])
    if site is not None and site.bias is not None:
        written = F.matmul(w("embed", "W_E"), w("embed", site.bias))
        total = F.add(total, F.matmul(forms, written))
    if spec.project:
        total = F.add(total, F.matmul(forms, _used(w)[:, :1]))
    if has(spec, "embed", "b_E"):
        total = F.add(total, F.matmul(forms, w("embed", "b_E")))
    return total[:, 0]
