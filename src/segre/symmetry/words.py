"""Symmetries of words that are normed on their own: each word separately.

At eps = 0 the scale of each word is free. With eps > 0 the norm y / sqrt(|y|^2 / d + eps) is a
bijection onto a ball: n' = n + M n, if y' = y + M y + y (y^T M y) / (d eps). So each word
compensates for a change of the gain. The remaining part along 1 has no effect on LayerNorms, and
the first attention, which has no norm before it, subtracts it. Where norms come after the skips,
this is counted for designs with decays, of others `wider` knows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import Canvas, ModularWeights, Piece
from segre.geometry.gauge.wiring import norm_at, readers, sublayers
from segre.symmetry.space import inverse_gain
from segre.transformer.spec import Transformer

_TOKENS, _GAIN = ("embed", "tokens"), ("embed", "norm.gain")


def normed_word_pieces(spec: Transformer) -> Iterator[Piece]:
    """The scale of each word, or the gain of the words' norm."""
    alone = not spec.tied and spec.pos != "learned" and not spec.types
    if not (spec.discrete and spec.embnorm and alone):
        return
    if not spec.eps:
        yield _scales(spec)
        return
    carried = spec.firstnorm and spec.norm == "rms" and spec.place == "post"
    if spec.firstnorm and not (carried and spec.decay != "none"):
        return
    if spec.norm == "layer" and not spec.final:
        return
    if spec.gain and not spec.embscale:
        yield _gains(spec)


def _scales(spec: Transformer) -> Piece:
    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(spec.vocab)
        for word in range(spec.vocab):
            canvas(*_TOKENS)[word, :, word] = w(*_TOKENS)[:, word]
        return canvas.rows

    name = "scale of the embedding of each word, before its norm"
    # all of them together are the scale of the embeddings
    count = spec.vocab - 1
    return Piece(
        "word-scale", name, "embedding", "norms and biases", "eps=0", count, build, hard=True
    )


def _gains(spec: Transformer) -> Piece:
    d = spec.d

    def build(w: ModularWeights) -> Array:
        F, canvas = w.field, w.canvas(d)
        inverse = inverse_gain(w, norm_at(spec, "embed", "norm", d))
        total = F.reciprocal(F.sum(inverse, axis=-2))
        for i in range(d):
            unit = np.eye(d)[i : i + 1]
            M = -F.matmul(unit.T, unit)
            if spec.norm == "layer":
                M = F.add(M, F.mul(F.matmul(inverse, unit), total))
                form = F.mul(F.mul(unit, inverse[i, 0]), total)
                _take_back(w, canvas, i, F.matmul(np.ones((d, 1)), form))
            canvas(*_GAIN)[i, i] = w(*_GAIN)[i]
            _move_words(w, canvas, i, M)
        return F.reduce(canvas.rows)

    name = "gains of the embedding norm, compensated by the words"
    return Piece("word-gains", name, "embedding", "norms and biases", "exact", d, build, hard=True)


def _move_words(w: ModularWeights, canvas: Canvas, row: int, M: Array) -> None:
    """Words whose norm is moved by M."""
    F, spec, y = w.field, w.transformer, w(*_TOKENS)
    if spec.norm == "layer":
        y = F.sub(y, F.mul(F.sum(y, axis=-2), F.fraction(Fraction(1, spec.d))))
    moved = F.matmul(M, y)
    size = F.mul(F.sum(F.mul(y, moved), axis=-2), F.fraction(1 / (spec.d * spec.eps)))
    canvas(*_TOKENS)[row] = F.add(moved, F.mul(y, size))


def _take_back(w: ModularWeights, canvas: Canvas, row: int, change: Array) -> None:
    """The first attention reads x + change x: its readers undo that."""
    spec = w.transformer
    for reader in readers(spec, sublayers(spec)[0]):
        tensor = (reader.part, reader.weight)
        canvas(*tensor)[row] = -w.field.matmul(w(*tensor), change)
