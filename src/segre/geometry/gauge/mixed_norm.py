"""Symmetries of a norm of the mixed values of all heads, before gates and outputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.transformer.spec import Transformer


def mixed_norm_pieces(spec: Transformer, part: str, at: str) -> Iterator[Piece]:
    """Its gain, absorbed by outputs."""
    if spec.gain:
        yield _gains(spec, part, at)


def _gains(spec: Transformer, part: str, at: str) -> Piece:
    count = spec.heads * spec.dv

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(count)
        for row, (g, q, j) in enumerate(np.ndindex(spec.kv, spec.group, spec.dv)):
            canvas(part, "normo.gain")[row, g, q, j] = w(part, "normo.gain")[g, q, j]
            canvas(part, "W_O")[row, g, q, :, j] = -w(part, "W_O")[g, q, :, j]
        return canvas.rows

    name = "gains of the norm after mixing, absorbed by the outputs"
    return Piece("gain", name, at, "norms and biases", "exact", count, build)
