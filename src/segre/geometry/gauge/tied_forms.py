"""Symmetries of a tied table with fewer words than the stream has dimensions.

The head reads E^T x, so that a symmetric B with E^T B = 0 is a change of basis that it does not
see; if all logits may shift alike, B may have E^T B = 1 r^T. Such B are s u^T + u s^T, where E^T s
and E^T u are multiples of 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.stream import conjugated
from segre.geometry.gauge.vocabulary import logits_may_shift
from segre.geometry.gauge.wiring import (
    has,
    norm_before,
    own_sublayers,
    readers,
    writer_bias,
    writers,
)
from segre.geometry.reach import annihilator
from segre.transformer.spec import Transformer


def tied_form_pieces(spec: Transformer) -> Iterator[Piece]:
    """Without norms, or with RMS norms before sublayers and the gain of the last one."""
    if not spec.discrete or not spec.tied or not spec.residual or spec.output == "hidden":
        return
    if spec.embed or spec.transform or spec.pooler or spec.logitcap or spec.layerscale:
        return
    if spec.vocab - logits_may_shift(spec) >= spec.d:
        return
    gained = spec.norm == "rms" and spec.place == "pre" and spec.final and spec.gain
    if spec.norm == "none" or (gained and not spec.embnorm and spec.firstnorm):
        yield _piece(spec)


def _piece(spec: Transformer) -> Piece:
    def build(w: ModularWeights) -> Array:
        F = w.field
        table = w("embed", "tokens").T
        if logits_may_shift(spec):
            table = F.sub(table[1:], table[:1])
        free = annihilator(F, np.ascontiguousarray(table))
        pairs = list(combinations_with_replacement(free, 2))
        canvas = w.canvas(len(pairs))
        for row, (s, u) in enumerate(pairs):
            B = F.reduce(np.outer(s, u) + np.outer(u, s))
            X = B
            if spec.norm != "none":
                g = w("head", "norm.gain")[:, 0]
                apart = F.sub(g[:, None], g[None, :]) + np.eye(spec.d)
                X = F.mul(B - np.diag(np.diag(B)), F.reciprocal(apart))
                canvas("head", "norm.gain")[row, :, 0] = np.diag(B)
            for end in (("embed", ""), *own_sublayers(spec)):
                bias = writer_bias(spec, end)
                for name in [*writers(spec, end), *([bias] if bias else [])]:
                    canvas(end[0], name)[row] = F.matmul(X, w(end[0], name))
            for end in own_sublayers(spec):
                turned = conjugated(w, norm_before(spec, end), X)
                for reader in readers(spec, end):
                    moved = F.matmul(w(reader.part, reader.weight), turned)
                    canvas(reader.part, reader.weight)[row] = -moved
        return F.reduce(canvas.rows)

    assert has(spec, "embed", "tokens")
    name = "changes of the stream's basis in directions that a tied table does not read"
    return Piece("tied-forms", name, "residual stream", "residual", "exact", 0, build)
