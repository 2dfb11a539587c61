"""Attention mechanisms: how scores between tokens become mixing weights, over any field."""

from __future__ import annotations

from segre.fields.interface import E, Field
from segre.spec import Score


def attention_pattern(field: Field[E], score: Score, keys: E, queries: E) -> E:
    """The t x t matrix that mixes tokens: row = key, column = query.

    lightning   keys^T queries
    softmax     exp(keys^T queries), each column divided by its sum
    """
    scores = field.matmul(field.transpose(keys), queries)
    return scores if score == "lightning" else field.softmax(scores)
