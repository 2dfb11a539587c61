"""How readers compensate for a shift of their input, and how a shift of the stream is written."""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import Canvas, ModularWeights
from segre.geometry.gauge.wiring import (
    Norm,
    Reader,
)


def unit_shift(w: ModularWeights, source: tuple[str, str]) -> Array:
    """What to add to a source so that the stream moves by one: embeddings may be scaled."""
    if source == ("embed", "tokens") and w.transformer.embscale:
        return np.asarray(w.field.reciprocal(w.field.surd(w.transformer.d))[0])
    return np.ones(1)


def absorb_shift(w: ModularWeights, canvas: Canvas, reader: Reader, site: Norm | None) -> None:
    """How a reader compensates for unit shifts of its input: generator i for shift i.

    Its bias takes them back. A reader without a bias does so too, after a LayerNorm with a bias:
    what a LayerNorm writes is orthogonal to 1 before its gain, so that the form 1^T G^-1 reads
    its bias alone.
    """
    F, shifted = w.field, -np.moveaxis(w(reader.part, reader.weight), -1, 0)
    if reader.bias is not None:
        canvas(reader.part, reader.bias)[..., 0] = shifted
        return
    assert site is not None
    assert site.bias is not None
    inverse = inverse_gain(w, site)
    total = F.sum(F.mul(inverse, w(site.part, site.bias)), axis=-2)
    form = F.mul(inverse[:, 0], F.reciprocal(total)[0])
    canvas(reader.part, reader.weight)[...] = F.mul(shifted[..., None], form)


def inverse_gain(w: ModularWeights, site: Norm) -> Array:
    """1 / gain, as a column."""
    return w.inverse(site.part, site.gain) if site.gain else np.ones((site.width, 1))
