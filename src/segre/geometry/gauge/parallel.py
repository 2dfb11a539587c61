"""Symmetries of parallel layers: attention and MLP add constants to the same stream."""

from __future__ import annotations

from collections.abc import Iterator

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.wiring import has, layer_parts, where
from segre.transformer.spec import Transformer


def parallel_pieces(spec: Transformer) -> Iterator[Piece]:
    """The function depends only on the sum of the output biases of a layer."""
    if not spec.parallel:
        return
    for part in layer_parts(spec):
        if has(spec, part, "b_O") and has(spec, part, "b_down"):
            yield _between_biases(spec, part)


def _between_biases(spec: Transformer, part: str) -> Piece:
    d = spec.d

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(d)
        canvas(part, "b_O")[range(d), range(d), 0] = 1
        canvas(part, "b_down")[range(d), range(d), 0] = -1
        return canvas.rows

    name = "a constant moved from the attention bias to the MLP bias"
    # along the mean of a LayerNorm, constants have been moved already
    count = d - (spec.norm == "layer")
    at = where(spec, part)
    return Piece("parallel-bias", name, at, "norms and biases", "exact", count, build)
