"""Symmetries of norms after narrow sublayers: gains against the rows of the output weights."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.means import seen_means
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.wiring import (
    End,
    norm_after,
    own_sublayers,
    stream_places,
    where,
    writer_bias,
    writers,
)
from segre.geometry.reach import annihilator
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes


def inner_gain_pieces(spec: Transformer, seen: bool = False) -> Iterator[Piece]:
    """Where what a sublayer writes passes a norm with a gain, and fills few dimensions.

    `seen`: those behind which means of what is written are seen, or those where they are not.
    """
    if not spec.normed_inside or not spec.gain:
        return
    (place,) = stream_places(spec)
    for end in own_sublayers(spec):
        if (spec.norm == "layer" and seen_means(spec, place, end)) != seen:
            continue
        bias = writer_bias(spec, end)
        names = [*writers(spec, end), *([bias] if bias else [])]
        shapes = [part_shapes(spec, end[0])[name] for name in names]
        columns = sum(prod(shape) // spec.d for shape in shapes)
        if columns * (columns + 1) // 2 + columns * seen < spec.d:
            yield _piece(spec, end, names, seen)


def _piece(spec: Transformer, end: End, names: list[str], seen: bool) -> Piece:
    """Diagonal matrices D with W^T D W = 0: the norm's root does not see W - D W, its gain 1 + D.

    For LayerNorms W stands for what is left of it without its mean, and means of what is written
    are seen by nobody; or else D W has no mean.
    """
    d, part, site = spec.d, end[0], norm_after(spec, end)
    assert site is not None
    assert site.gain is not None

    def build(w: ModularWeights) -> Array:
        F, gain = w.field, w(part, site.gain or "")
        blocks = [np.moveaxis(w(part, name), -2, 0).reshape(d, -1) for name in names]
        W = np.concatenate(blocks, axis=1)
        changes = np.zeros((d, *W.shape))  # dW, for each D = E_ii
        if spec.norm == "layer":
            inverse = w.inverse(part, site.gain or "")
            share = F.reciprocal(F.sum(inverse, axis=-2))
            mean = F.mul(F.sum(W, axis=-2), F.reciprocal(F.constant(np.array([[d]]))))
            W = F.sub(W, mean)
            along = F.mul(inverse, share)
            changes = changes if seen else F.mul(along[None], W[:, None, :])
        changes[range(d), range(d)] = F.sub(changes[range(d), range(d)], W)
        crossed = F.matmul(W.T[None], changes)
        i, j = np.triu_indices(W.shape[1])
        forms = F.add(crossed[:, i, j], crossed[:, j, i])
        forms = np.concatenate([forms, W], axis=1) if seen else forms
        found = annihilator(F, np.ascontiguousarray(forms.T))
        canvas = w.canvas(len(found))
        canvas(part, site.gain or "")[...] = F.mul(found[..., None], gain)
        moved = F.matmul(found, changes.reshape(d, -1)).reshape(len(found), *W.shape)
        start = 0
        for name, block in zip(names, blocks, strict=True):
            own = moved[:, :, start : start + block.shape[1]]
            view = np.moveaxis(canvas(part, name), -2, 1)
            view[...] = own.reshape(view.shape)
            start += block.shape[1]
        return canvas.rows

    name = f"gains of the norm after the {end[1]}, against its output weights"
    return Piece("inner-gain", name, where(spec, part), "norms and biases", "exact", 0, build)
