"""What a checkpoint computes on tokens, layer by layer, by segre's own forward map.

In double precision, whatever the weights are stored in, so that differences are those of the
weights; one part of the model is in memory at a time. Tested equal to the transformers library.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model, Progress, no_progress
from segre.fields import Real
from segre.fields.interface import Array
from segre.stage import Stage
from segre.transformer.spec import Transformer
from segre.transformer.stages import stages
from segre.transformer.tensors import CONSTANTS


@dataclass(frozen=True)
class Tokens:
    """Sequences of tokens, and of their types where a model has types: (batch, length)."""

    words: Array
    types: Array | None = None


def random_tokens(spec: Transformer, seed: int, batch: int = 4, length: int = 12) -> Tokens:
    """Sequences of random tokens."""
    rng = np.random.default_rng(seed)
    shape = (batch, min(length, spec.t))
    words = rng.integers(spec.vocab, size=shape)
    return Tokens(words, rng.integers(spec.types, size=shape) if spec.types else None)


def outputs(model: Model, tokens: Tokens, progress: Progress = no_progress) -> Array:
    """Hidden states (and the pooled token, as one more column) or logits: (batch, rows, t)."""
    spec = replace(model.spec, t=tokens.words.shape[1])
    used, words = np.unique(tokens.words, return_inverse=True)
    small = replace(spec, vocab=len(used))  # the table of the tokens that occur
    x = _one_hot(small, words, tokens.types)[:, None, None]
    held: tuple[str, Tensors] = ("", {})
    every = stages(spec)
    for done, stage in enumerate(every):
        progress("outputs", done, len(every))
        part = _part(spec, stage)
        if held[0] != part:
            held = ("", {})  # one part at a time
            held = (part, model.part(part))
        w = {n: x for n, x in held[1].items() if n in stage.slots or n in CONSTANTS}
        if part == "embed":
            w["tokens"] = w["tokens"][:, used]
            stage = stages(small)[0]
        elif "tokens" in stage.slots:
            w |= model.part("embed", ["tokens"])
        x = stage.apply(Real(), _scaled(spec, w), x)
    return x.reshape(len(tokens.words), *x.shape[-2:])


def _part(spec: Transformer, stage: Stage) -> str:
    """The part that has the weights of a stage: where layers share them, the first layer."""
    part = stage.name.split()[-1]
    return "1" if spec.share and part.isdecimal() else part


def _one_hot(spec: Transformer, words: Array, types: Array | None) -> Array:
    """Inputs of a spec: columns that are one-hot in the vocabulary, and in the types."""
    out = np.zeros((len(words), spec.width_in, spec.t))
    np.put_along_axis(out, words[:, None], 1.0, axis=1)
    if types is not None:
        np.put_along_axis(out, spec.vocab + types[:, None], 1.0, axis=1)
    return out


def _scaled(spec: Transformer, w: Tensors) -> Tensors:
    """In a spec the standard scale of the scores is part of the queries, or their norm's gain."""
    names = query_factors(spec)
    return {n: x * spec.standard**-0.5 if n in names else x for n, x in w.items()}


def query_factors(spec: Transformer) -> tuple[str, ...]:
    """The tensors of a layer that absorb a factor of its scores."""
    return ("normq.gain",) if spec.qknorm else ("W_Q", "b_Q", "R_Q")


def furthest(one: Array, two: Array) -> float:
    """The largest difference of outputs, relative to the largest output."""
    return float(np.abs(one - two).max() / np.abs(one).max())
