"""Symmetries of token sequences alone: each word on its own. Soft sequences do not have them."""

from __future__ import annotations

from collections.abc import Iterator

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.transformer.spec import Transformer


def word_pieces(spec: Transformer) -> Iterator[Piece]:
    """The scale of each word before a norm at eps = 0."""
    alone = spec.discrete and not spec.tied and spec.pos != "learned" and not spec.types
    if alone and spec.embnorm and not spec.eps:
        yield _word_scales(spec)


def _word_scales(spec: Transformer) -> Piece:
    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(spec.vocab)
        for word in range(spec.vocab):
            canvas("embed", "tokens")[word, :, word] = w("embed", "tokens")[:, word]
        return canvas.rows

    name = "scale of each word's embedding, before its norm"
    # all of them together are the scale of the embeddings
    count = spec.vocab - 1
    return Piece(
        "word-scale", name, "embedding", "norms and biases", "eps=0", count, build, hard=True
    )
