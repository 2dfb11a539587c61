"""Symmetries of value biases without an output bias: they compensate constants of the embedding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.absorb import unit_shift
from segre.geometry.gauge.piece import Holds, ModularWeights, Piece
from segre.geometry.gauge.vocabulary import logits_may_shift
from segre.geometry.gauge.wiring import End, ends, readers, shift_source, sublayers, where
from segre.transformer.spec import Transformer


def value_shift_pieces(spec: Transformer) -> Iterator[Piece]:
    """A constant subtracted from the embedding and compensated by later attention layers.

    The biases of their queries, keys and values make up for it, and those of the last one's values
    write it again, as the columns of a softmax sum to one. With gates only the mean is left, which
    the norm after the skip removes.
    """
    if spec.bias != "qkv" or spec.latent or not spec.sums_to_one or not spec.residual:
        return
    if spec.gate != "none" and spec.norm != "layer":
        return
    if spec.norm != "none" and spec.place != "post":
        return
    source = shift_source(spec, ends(spec)[0])
    if source is None or (spec.share and spec.layers > 1) or spec.parallel or spec.embed:
        return
    tied = source == ("embed", "tokens") and spec.tied
    if tied and not logits_may_shift(spec):
        return
    passed: list[End] = []
    for end in sublayers(spec):
        if end[1] != "attention":
            return
        passed.append(end)
        yield _piece(spec, source, tuple(passed), "softmax" if tied else "exact")
        if spec.norm != "none":
            return


def _piece(
    spec: Transformer, source: tuple[str, str], passed: tuple[End, ...], holds: Holds
) -> Piece:
    inner, part = spec.kv * spec.dv * (spec.gate == "none"), passed[-1][0]
    mean = spec.norm == "layer"  # which the norm after the skip takes away

    def build(w: ModularWeights) -> Array:
        F, canvas = w.field, w.canvas(inner + mean)
        written = F.reduce(w(part, "W_O").sum(axis=1))  # (kv, d, v)
        written = np.moveaxis(written, 1, 0).reshape(spec.d, -1)[:, :inner]
        written = np.concatenate([written, np.ones((spec.d, int(mean)))], axis=1)
        canvas(*source)[...] = -F.mul(written, unit_shift(w, source)).T[:, :, None]
        for end in passed:
            for reader in readers(spec, end):
                assert reader.bias is not None
                moved = F.matmul(w(reader.part, reader.weight), written)
                canvas(reader.part, reader.bias)[..., 0] = np.moveaxis(moved, -1, 0)
        own = canvas(part, "b_V").reshape(inner + mean, -1)
        own[:inner] += np.eye(inner, own.shape[1])
        return F.reduce(canvas.rows)

    name = "constants of the embedding, subtracted by value biases"
    at = where(spec, part)
    count = min(inner, spec.d - mean) + mean
    return Piece("value-shift", name, at, "norms and biases", holds, count, build)
