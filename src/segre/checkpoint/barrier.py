"""The loss along the straight line between two checkpoints: is there a barrier?

The loss is the mean cross-entropy of the next token, in nats. The barrier is the largest amount by
which it exceeds the straight line between its values at the two ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from segre.checkpoint.function import require_same_architecture, require_same_scale
from segre.checkpoint.inputs import Inputs, common_inputs, longest, require_tokens
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.overflow import on_models
from segre.errors import SpecError, UnsupportedError
from segre.fields import Real
from segre.fields.interface import Array
from segre.files import shown
from segre.finding import Status, Unbounded
from segre.models import Source
from segre.shown import Shown
from segre.transformer.forward import Tokens, WeightSource, at_length, run
from segre.transformer.spec import Transformer
from segre.transformer.stages import head

POINTS = 11


@dataclass(frozen=True)
class Line:
    """Losses along the line from the first checkpoint (0) to another (1)."""

    name: str
    shares: tuple[float, ...]
    losses: tuple[float, ...]

    @property
    def above(self) -> tuple[float, ...]:
        """The amount by which each loss exceeds the straight line between the ends."""
        ends = self.losses[0], self.losses[-1]
        pairs = zip(self.shares, self.losses, strict=True)
        return tuple(loss - (1 - t) * ends[0] - t * ends[1] for t, loss in pairs)

    @property
    def barrier(self) -> float:
        """The largest excess over the straight line between the ends; 0 if there is none."""
        return max(0.0, *self.above)

    @property
    def middle(self) -> float:
        """The loss at the midpoint, or at the nearest point."""
        return min(zip(self.shares, self.losses, strict=True), key=lambda at: abs(at[0] - 0.5))[1]

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "to": shown(self.name),
            "barrier": self.barrier,
            "shares": list(self.shares),
            "losses": list(self.losses),
        }


@dataclass(frozen=True)
class Barriers(Unbounded, Shown):
    """Losses along the lines from one checkpoint to others."""

    name: str
    lines: tuple[Line, ...]
    on: str  # which tokens
    status: ClassVar[Status] = "measured"

    @property
    def value(self) -> float:
        """The barrier on the line to the last checkpoint."""
        return self.lines[-1].barrier

    @property
    def how(self) -> str:
        """The inputs on which they were measured."""
        return f"the mean cross-entropy of the next token, in nats, on {self.on}"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "from": shown(self.name),
            "on": self.on,
            "lines": [line.document() for line in self.lines],
        }


@on_models(1 << 20)
def barrier(
    one: Source,
    *others: Source,
    text: str | Path | None = None,
    tokens: npt.ArrayLike | None = None,
    length: int | None = None,
    points: int = POINTS,
    progress: Progress = no_progress,
) -> Barriers:
    """The losses along the straight lines from the first checkpoint to each of the others.

    They are measured on the beginning of a text (at most 32 pieces of `length` tokens, by default
    128), or on `tokens`, given as a matrix of whole numbers, at so many `points` of each line.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.commands import align, move
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     moved = move(model, seed=1)
    ...     found = barrier(model, moved, align(model, moved), tokens=[[1, 2, 3, 4, 3, 2]])
    >>> before, after = found.lines
    >>> max(after.losses) - min(after.losses) < 1e-5 < max(before.losses) - min(before.losses)
    True
    """
    if points < 2:
        raise SpecError(f"points: {points} is not allowed; allowed: whole numbers from 2")
    if (text is None) == (tokens is None):
        raise SpecError("barrier needs inputs; give a text, or tokens")
    shares = tuple(float(t) for t in np.linspace(0, 1, points))
    lines, on = [], ""
    for number, two in enumerate(others):
        _require_next_tokens(one)
        require_same_architecture(one, two)
        require_same_scale(one, two)
        on, batches = _inputs(one, two, text, tokens, length)
        losses = []
        for done, share in enumerate(shares):
            progress("losses", number * points + done, len(others) * points)
            losses.append(loss(Between(one, two, share), batches))
        lines.append(Line(two.name, shares, tuple(losses)))
    return Barriers(one.name, tuple(lines), on)


def _inputs(
    model: Model,
    two: Model,
    text: str | Path | None,
    tokens: npt.ArrayLike | None,
    length: int | None,
) -> tuple[str, list[Tokens]]:
    """The tokens of a text, or the given ones, and their description."""
    if tokens is None:
        inputs, batches = common_inputs(model, two, text, length=length)
        assert inputs is not None
        return inputs.said, batches
    words = np.asarray(tokens)
    if words.ndim != 2 or words.dtype.kind not in "iu" or words.shape[1] < 2 or not words.size:
        raise SpecError(
            "tokens are not valid; give a matrix of whole numbers with one sequence in each row"
        )
    require_tokens(model, words)
    most = longest(model.spec)
    if most is not None and words.shape[1] > most:
        raise SpecError(
            f"tokens: {words.shape[1]} in a row, but the model has {most} positions; give fewer"
        )
    return Inputs((words,), "given tokens").said, [Tokens(words)]


def _require_next_tokens(model: Model) -> None:
    spec = model.spec
    if not (spec.causal and spec.vocab and spec.output == "logits" and not spec.labels):
        raise UnsupportedError(
            f"{model.name!r} has no next-token loss; allowed: causal models with a head over the "
            "vocabulary"
        )


@dataclass(frozen=True)
class Between:
    """The weights between two checkpoints: (1 - share) of the first and a share of the second."""

    one: WeightSource
    two: WeightSource
    share: float

    @property
    def spec(self) -> Transformer:
        """The architecture of the weights."""
        return self.one.spec

    def part(
        self, part: str, names: Iterable[str] | None = None, dtype: npt.DTypeLike = np.float64
    ) -> Tensors:
        """The tensors of a part, or only the named ones."""
        wanted = None if names is None else list(names)
        a, b = (each.part(part, wanted, dtype) for each in (self.one, self.two))
        return {name: self._mixed(x, b[name]) for name, x in a.items()}

    def columns(self, name: str, which: Array, dtype: npt.DTypeLike = np.float64) -> Array:
        """Some columns of an embedding table."""
        a, b = (each.columns(name, which, dtype) for each in (self.one, self.two))
        return self._mixed(a, b)

    def _mixed(self, a: Array, b: Array) -> Array:
        return np.asarray((1 - self.share) * a + self.share * b, a.dtype)


def loss(weights: WeightSource, batches: Sequence[Tokens]) -> float:
    """The mean cross-entropy of the next token, in nats."""
    field = Real(np.float32)
    spec = weights.spec
    ((*streams,),) = run(weights, batches, field)
    w = weights.part("head", None, field.dtype)
    if spec.tied:
        w |= weights.part("embed", ["tokens"], field.dtype)
    total, count = 0.0, 0
    for tokens, x in zip(batches, streams, strict=True):
        own = at_length(spec, tokens.length)
        for words, stream in zip(tokens.words, x, strict=True):  # logits of one at a time
            logits = head(field, w, stream[None], spec=own).reshape(-1, tokens.length)[:, :-1]
            logits = logits.astype(np.float64)
            top = logits.max(axis=0)
            sums = top + np.log(np.exp(logits - top).sum(axis=0))
            total += float((sums - logits[words[1:], np.arange(len(words) - 1)]).sum())
            count += len(words) - 1
    return total / count
