"""What a checkpoint computes on tokens, layer by layer, by segre's own forward map.

In double precision, whatever the weights are stored in, so that differences are those of the
weights; one sub-layer of the model is in memory at a time. Tested equal to the transformers
library.
"""

from __future__ import annotations

import numpy as np

from segre.checkpoint.model import Model, Progress, no_progress
from segre.fields import Real
from segre.fields.interface import Array
from segre.transformer import forward
from segre.transformer.forward import Tokens
from segre.transformer.spec import Transformer


def random_tokens(spec: Transformer, seed: int, batch: int = 4, length: int = 12) -> Tokens:
    """Sequences of random tokens; of matrices, where there is no vocabulary."""
    rng = np.random.default_rng(seed)
    if spec.patch:
        return Tokens(rng.standard_normal((batch, spec.patch, spec.t)))
    shape = (batch, min(length, spec.t))
    if not spec.embedded:
        return Tokens(rng.standard_normal((batch, spec.d, shape[1])))
    words = rng.integers(spec.vocab, size=shape)
    return Tokens(words, rng.integers(spec.types, size=shape) if spec.types else None)


def outputs(model: Model, tokens: Tokens, progress: Progress = no_progress) -> Array:
    """Hidden states (and the pooled token, as one more column) or logits: (batch, rows, t)."""

    def layer(done: int) -> None:
        progress("outputs", done, model.spec.layers + 1)

    return forward.outputs(model, tokens, Real(), layer)


def furthest(one: Array, two: Array) -> float:
    """The largest difference of outputs, relative to the largest output."""
    return float(np.abs(one - two).max() / np.abs(one).max())
