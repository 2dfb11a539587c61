"""Generators that several places share: rotations of rows and columns, gains for readers."""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import Canvas, ModularWeights, Piece
from segre.geometry.gauge.wiring import Norm


def below_diagonal(n: int) -> list[tuple[int, int]]:
    """The pairs (j, k), k < j < n: a basis E_jk - E_kj of the skew matrices."""
    return [(j, k) for j in range(n) for k in range(j)]


def turn_rows(
    canvas: Canvas, tensor: tuple[str, str], value: Array, pairs: list[tuple[int, int]]
) -> None:
    """d tensor = S tensor on its rows (next to last axis), S = E_jk - E_kj."""
    tangent = canvas(*tensor)
    for row, (j, k) in enumerate(pairs):
        tangent[row, ..., j, :] = value[..., k, :]
        tangent[row, ..., k, :] = -value[..., j, :]


def turn_columns(
    w: ModularWeights,
    canvas: Canvas,
    tensor: tuple[str, str],
    norm: Norm | None,
    pairs: list[tuple[int, int]],
) -> None:
    """d tensor = -tensor G S G^-1 on its columns, G the gain of the norm before it."""
    value, tangent = w(*tensor), canvas(*tensor)
    g = inverse = np.ones(value.shape[-1])
    if norm is not None and norm.gain is not None:
        g = w(norm.part, norm.gain)[:, 0]
        inverse = w.inverse(norm.part, norm.gain)[:, 0]
    scaled = w.field.reduce(value * g)
    for row, (j, k) in enumerate(pairs):
        tangent[row, ..., k] = -w.field.reduce(scaled[..., j] * inverse[k])
        tangent[row, ..., j] = w.field.reduce(scaled[..., k] * inverse[j])


def gain_piece(part: str, at: str, site: Norm, readers: list[tuple[str, str]], name: str) -> Piece:
    """A gain that its readers absorb."""

    def build(w: ModularWeights) -> Array:
        assert site.gain is not None
        canvas = w.canvas(site.width)
        for i in range(site.width):
            for own in (site.gain, site.bias):
                if own is not None:
                    canvas(part, own)[i, i, 0] = w(part, own)[i, 0]
            for tensor in readers:
                canvas(*tensor)[i, ..., i] = -w(*tensor)[..., i]
        return canvas.rows

    title = f"gains of the {name} norm, absorbed by the maps that read it"
    return Piece("gain", title, at, "norms and biases", "exact", site.width, build)
