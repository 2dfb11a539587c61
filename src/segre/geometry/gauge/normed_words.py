"""Symmetries of words that are normed on their own: each word separately.

At eps = 0 the scale of each word is free. With eps > 0 the RMSNorm y / sqrt(|y|^2 / d + eps) is a
bijection onto a ball: n' = n + M n, if y' = y + M y + y (y^T M y) / (d eps). So each word
compensates for a change of the gain. This is counted for designs with decays; of others `wider`
knows it.
"""

from __future__ import annotations

from collections.abc import Iterator

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.transformer.spec import Transformer

_TOKENS, _GAIN = ("embed", "tokens"), ("embed", "norm.gain")


def normed_word_pieces(spec: Transformer) -> Iterator[Piece]:
    """The scale of each word, or the gain of the words' norm."""
    alone = not spec.tied and spec.pos != "learned" and not spec.types
    if not (spec.discrete and spec.embnorm and alone):
        return
    fading = spec.norm == "rms" and spec.place == "post" and spec.decay != "none"
    if not spec.eps:
        yield _scales(spec)
    elif fading and spec.gain and not spec.embscale:
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
        F, canvas, y = w.field, w.canvas(d), w(*_TOKENS)
        share = F.fraction(1 / (d * spec.eps))
        for i in range(d):
            canvas(*_GAIN)[i, i] = w(*_GAIN)[i]
            size = F.mul(F.mul(y[i], y[i]), share)  # M = -E_ii
            canvas(*_TOKENS)[i] = -F.mul(y, size)
            canvas(*_TOKENS)[i, i] -= y[i]
        return F.reduce(canvas.rows)

    name = "gains of the embedding norm, compensated by the words"
    return Piece("word-gains", name, "embedding", "norms and biases", "exact", d, build, hard=True)
