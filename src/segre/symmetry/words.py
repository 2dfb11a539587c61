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
from segre.symmetry.basis import Basis
from segre.symmetry.groups import algebra
from segre.symmetry.means import written
from segre.symmetry.norms import port_of
from segre.symmetry.piece import Canvas, ModularWeights, Piece
from segre.symmetry.space import Port
from segre.symmetry.wiring import norm_before, own_sublayers, readers, sublayers
from segre.transformer.spec import Transformer

_TOKENS, _GAIN, _HEAD = ("embed", "tokens"), ("embed", "norm.gain"), ("head", "")


def normed_word_pieces(spec: Transformer) -> Iterator[Piece]:
    """The scale of each word; or the gain of their norm, and the basis of an unseen stream."""
    alone = not spec.tied and spec.pos != "learned" and not spec.types
    if not (spec.discrete and spec.embnorm and alone):
        return
    if not spec.eps:
        # all of them together are the scale of the embeddings
        name, count = "scale of the embedding of each word, before its norm", spec.vocab - 1
        free, at = Basis(spec.vocab, "torus", (Port(_TOKENS, -1),)), "embedding"
        yield Piece("word-scale", name, at, "norms and biases", "eps=0", count, free, hard=True)
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


def _gains(spec: Transformer) -> Piece:
    d = spec.d

    def build(w: ModularWeights) -> Array:
        F, canvas = w.field, w.canvas(d)
        for i, S in enumerate(-algebra("torus", d)):
            canvas(*_GAIN)[i, i] = w(*_GAIN)[i]
            _take_back(w, canvas, i, F.sub(_move_words(w, canvas, i, S), S))
        return F.reduce(canvas.rows)

    name = "gains of the embedding norm, compensated by the words"
    return Piece("word-gains", name, "embedding", "norms and biases", "exact", d, build, hard=True)


def _turns(spec: Transformer) -> Piece:
    layer = spec.norm == "layer"
    n, turns = spec.d - layer, Basis(spec.d, "o1" if layer else "o", tuple(turned_ports(spec)))

    def build(w: ModularWeights) -> Array:
        skew = algebra(turns.group, spec.d)
        canvas = w.canvas(len(skew))
        for row, S in enumerate(skew):
            _take_back(w, canvas, row, _move_words(w, canvas, row, S))
        return w.field.add(turns(w), canvas.rows)

    name, count = f"rotations O({n}) of the stream, compensated by the words", n * (n - 1) // 2
    return Piece(
        "word-turns", name, "residual stream", "residual", "exact", count, build, hard=True
    )


def turned_ports(spec: Transformer) -> Iterator[Port]:
    """All that writes to the stream after the words, and reads it after the first attention."""
    for end in own_sublayers(spec):
        yield from written(spec, end)
    for end in (*own_sublayers(spec)[1:], _HEAD):
        site = norm_before(spec, end)
        gain = (site.part, site.gain) if site is not None and site.gain else None
        yield from (port_of(read, gain=gain) for read in readers(spec, end))


def _move_words(w: ModularWeights, canvas: Canvas, row: int, S: Array) -> Array:
    """Words y for whose norm and gain x becomes x + S x, and beside that a multiple of 1: both."""
    F, spec, y = w.field, w.transformer, w(*_TOKENS)
    gain = w(*_GAIN) if spec.gain else np.ones((spec.d, 1))
    inverse = F.reciprocal(gain)
    if spec.norm == "layer":
        form = F.mul(F.matmul(inverse.T, S), F.reciprocal(F.sum(inverse, axis=-2)))
        S = F.sub(S, F.matmul(np.ones((spec.d, 1)), form))
        y = F.sub(y, F.mul(F.sum(y, axis=-2), F.fraction(Fraction(1, spec.d))))
    moved = F.matmul(F.mul(F.mul(inverse, S), gain[:, 0]), y)
    size = F.mul(F.sum(F.mul(y, moved), axis=-2), F.fraction(1 / (spec.d * spec.eps)))
    canvas(*_TOKENS)[row] = F.add(moved, F.mul(y, size))
    return S


def _take_back(w: ModularWeights, canvas: Canvas, row: int, change: Array) -> None:
    """The first attention reads x + change x: its readers undo that."""
    for reader in readers(w.transformer, sublayers(w.transformer)[0]):
        tensor = (reader.part, reader.weight)
        canvas(*tensor)[row] = -w.field.matmul(w(*tensor), change)
