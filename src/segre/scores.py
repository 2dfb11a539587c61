"""Attention mechanisms: how scores between tokens become mixing weights, over any field."""

from __future__ import annotations

from segre.fields.interface import Array, E, Field
from segre.spec import Score


def attention_pattern(field: Field[E], score: Score, keys: E, queries: E) -> E:
    """The t x t matrix that mixes tokens: row = key, column = query.

    lightning   keys^T queries
    softmax     exp(keys^T queries), each column divided by its sum
    """
    scores = field.matmul(field.transpose(keys), queries)
    return scores if score == "lightning" else softmax(field, scores)


def softmax(field: Field[E], scores: E, seen: E | None = None, used: Array | None = None) -> E:
    """exp(scores), each column divided by its sum; with `seen` (zeros and ones), only there."""
    grown = field.exp(field.anchor(scores, used), used)
    if seen is not None:
        grown = field.mul(grown, seen)
    return field.mul(grown, field.reciprocal(field.sum(grown, axis=-2)))
