"""Symmetries of a norm of the mixed values of all heads, before gates and outputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.attention.symmetries import SCALE
from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.wiring import has
from segre.transformer.spec import Transformer


def mixed_norm_pieces(spec: Transformer, part: str, at: str) -> Iterator[Piece]:
    """Its gain, absorbed by outputs; scales of values, where no feature map is in the way."""
    if spec.gain:
        yield _gains(spec, part, at)
    if spec.feature != "none":
        return
    if spec.mechanism.scales:
        yield _scores(spec, part, at)
    if not spec.mixing_eps:
        yield _values(spec, part, at)


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


def _named(spec: Transformer, part: str, *names: str) -> list[str]:
    return [name for name in names if has(spec, part, name)]


def _scores(spec: Transformer, part: str, at: str) -> Piece:
    """Lightning: the values of a group against its queries."""

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(spec.kv)
        for g in range(spec.kv):
            for name in _named(spec, part, "W_V", "b_V"):
                canvas(part, name)[g, g] = w(part, name)[g]
            for name in _named(spec, part, "W_Q", "b_Q"):
                canvas(part, name)[g, g] = -w(part, name)[g]
        return canvas.rows

    return Piece(*SCALE, at, "QK", "exact", spec.kv, build)


def _values(spec: Transformer, part: str, at: str) -> Piece:
    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(1)
        for name in _named(spec, part, "W_V", "b_V"):
            canvas(part, name)[0] = w(part, name)
        return canvas.rows

    name = "scale of all values, before the norm after mixing"
    return Piece("norm-scale", name, at, "norms and biases", "eps=0", 1, build)
