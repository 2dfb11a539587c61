"""The outputs of a checkpoint on tokens, layer by layer, by segre's own forward map.

The computation is in double precision for every storage type, so that differences come from the
weights; one sub-layer of the model is in memory at a time. Tested against the transformers library.
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


class Running:
    """Outputs of a checkpoint, computed while its parts are read for another purpose."""

    def __init__(self, model: Model, tokens: Tokens) -> None:
        self._steps = forward.outputs_by_part(model, tokens, Real())
        self._due: str | None = next(self._steps)
        self._outputs: Array | None = None

    def part(self, part: str) -> None:
        """Process a part, if it is the next one."""
        if part == self._due:
            self._due = ""  # it may read parts itself
            try:
                self._due = next(self._steps)
            except StopIteration as end:
                self._due, self._outputs = None, end.value

    def outputs(self) -> Array:
        """The outputs; parts that were not read yet are read now."""
        while self._due is not None:
            self.part(self._due)
        assert self._outputs is not None
        return self._outputs


def furthest(one: Array, two: Array) -> float:
    """The largest difference of outputs, relative to the largest output of the first.

    >>> furthest(np.array([2.0, 4.0]), np.array([2.0, 3.0])), furthest(np.zeros(2), np.zeros(2))
    (0.25, 0.0)
    """
    return relative(float(np.abs(one - two).max()), float(np.abs(one).max()))


def relative(far: float, size: float) -> float:
    """A difference relative to a size; if that is zero, it is infinite, or zero too.

    >>> relative(1.0, 4.0), relative(1.0, 0.0), relative(0.0, 0.0)
    (0.25, inf, 0.0)
    """
    return far / size if size else float("inf") if far else 0.0
