"""Symmetries of words that are normed on their own: each word separately.

At eps = 0 the scale of each word is free. With eps > 0 the norm y / sqrt(|y|^2 / d + eps) is a
bijection onto a ball: n' = n + M n, if y' = y + M y + y (y^T M y) / (d eps). So each word
compensates for a change of the gain and for a rotation of the stream. The remaining part along 1
has no effect on LayerNorms, and the first attention, which has no norm before it, subtracts it.
Where norms come after the skips, the gain alone is free; this is counted for designs with decays,
of others `wider` knows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from segre.fields.interface import Array
from segre.symmetry.groups import algebra
from segre.symmetry.piece import Canvas, ModularWeights, Piece
from segre.symmetry.wiring import (
    norm_before,
    own_sublayers,
    readers,
    sublayers,
    writers,
)
from segre.transformer.spec import Transformer

_TOKENS, _GAIN, _HEAD = ("embed", "tokens"), ("embed", "norm.gain"), ("head", "")


def normed_word_pieces(spec: Transformer) -> Iterator[Piece]:
    """The scale of each word; or the gain of their norm, and the basis of an unseen stream."""
    alone = not spec.tied and spec.pos != "learned" and not spec.types
    if not (spec.discrete and spec.embnorm and alone):
        return
    if not spec.eps:
        yield _scales(spec)
    if not spec.eps or spec.embscale:
        return
    carried = spec.firstnorm and spec.norm == "rms" and spec.place == "post"
    if spec.firstnorm and not (carried and spec.decay != "none"):
        return
    if spec.norm == "layer" and not spec.final:
        return
    if spec.gain:
        yield _gains(spec)
    if not spec.firstnorm and not spec.shows_stream:
        yield _turns(spec)


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
        inverse, total = _inverse_gain(w)
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


def _turns(spec: Transformer) -> Piece:
    d, layer = spec.d, spec.norm == "layer"
    n = d - layer

    def build(w: ModularWeights) -> Array:
        F = w.field
        skew = algebra("o1" if layer else "o", d)
        canvas = w.canvas(len(skew))
        inverse, total = _inverse_gain(w)
        gain = w(*_GAIN) if spec.gain else np.ones((d, 1))
        for row, S in enumerate(skew):
            whole = F.reduce(S)
            if layer:
                form = -F.mul(F.matmul(inverse.T, S), total)
                whole = F.add(whole, F.matmul(np.ones((d, 1)), form))
            _move_words(w, canvas, row, F.mul(F.mul(inverse, whole), gain[:, 0]))
            _take_back(w, canvas, row, whole)
            for end in own_sublayers(spec):
                for tensor in ((end[0], name) for name in writers(spec, end)):
                    canvas(*tensor)[row] = F.matmul(S, w(*tensor))
            _turn_readers(w, canvas, row, S)
        return F.reduce(canvas.rows)

    name, count = f"rotations O({n}) of the stream, compensated by the words", n * (n - 1) // 2
    return Piece(
        "word-turns", name, "residual stream", "residual", "exact", count, build, hard=True
    )


def _turn_readers(w: ModularWeights, canvas: Canvas, row: int, S: Array) -> None:
    """All that read the stream later on."""
    F, spec = w.field, w.transformer
    for end in (*own_sublayers(spec)[1:], _HEAD):
        site = norm_before(spec, end)
        turned = F.reduce(S)
        if site is not None and site.gain is not None:
            g, inverse = w(site.part, site.gain), w.inverse(site.part, site.gain)
            turned = F.mul(F.mul(g, S), inverse[:, 0])
        for reader in readers(spec, end):
            tensor = (reader.part, reader.weight)
            canvas(*tensor)[row] = -F.matmul(w(*tensor), turned)


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


def _inverse_gain(w: ModularWeights) -> tuple[Array, Array]:
    """1 / gain as a column, and one over the sum of it."""
    F, spec = w.field, w.transformer
    inverse = w.inverse(*_GAIN) if spec.gain else np.ones((spec.d, 1))
    return inverse, F.reciprocal(F.sum(inverse, axis=-2))
