"""Two checkpoints merged into one: aligned first, then combined part by part, in double precision.

Without a base, C = (1 - weight) A + weight B', where B' is B aligned to A. With a base, the changes
from the base are added: C = A' + weight (B' - BASE), where A' and B' are aligned to BASE (task
arithmetic with the weights 1 and `weight`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from segre.checkpoint.align import Alignment, Nearness, nearer
from segre.checkpoint.inputs import WAYS, Way, require_same_tokenizer
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.overflow import on_models
from segre.checkpoint.saving import Saved, Saving, saving
from segre.errors import SpecError
from segre.files import shown
from segre.models import Source
from segre.shown import Shown
from segre.transformer.forward import Tokens

AS_THEY_ARE = "none"


@dataclass(frozen=True)
class Aligned:
    """The distance of a checkpoint to its alignment target, before and after."""

    name: str
    to: str
    whole: Nearness
    moved: bool  # or as it is: the steps would have led away, or none were asked for

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        distance = self.whole.document()["distance"]
        return {
            "checkpoint": shown(self.name),
            "to": shown(self.to),
            "distance": distance,
            "moved": self.moved,
        }


@dataclass(frozen=True)
class Merged(Saved, Shown):
    """A checkpoint merged from two."""

    formula: str
    weight: float
    by: str  # what the alignment went by, in words
    aligned: tuple[Aligned, ...]

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "directory": None if self.directory is None else shown(self.directory),
            "formula": self.formula,
            "weight": self.weight,
            "by": self.by,
            "aligned": [one.document() for one in self.aligned],
        }


@on_models(2)
def merge(
    one: Source,
    two: Source,
    target: str | Path | None = None,
    *,
    weight: float | None = None,
    task_vector: Source | None = None,
    by: str = "weights",
    text: str | Path | None = None,
    length: int | None = None,
    rounds: int = 1,
    untie: bool = False,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Merged:
    """Two checkpoints, aligned and then merged, in a new directory or in memory.

    The result is (1 - weight) A + weight B'; by default, `weight` is one half. With `task_vector`,
    a common base of both, it is A' + weight (B' - BASE), by default with weight 1. `by` is as in
    `align`, or "none" for no alignment; `text`, `length`, `rounds` and `untie` are as in `align`.
    Tensors have the dtypes of the first checkpoint.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.commands import move, same
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     merged = merge(model, move(model, seed=1))
    ...     found = same(model, merged)
    >>> merged.formula, found.verdict
    ("0.5 A + 0.5 B'", 'same function')
    """
    allowed = (*WAYS, AS_THEY_ARE)
    if by not in allowed:
        raise SpecError(f"by: {by!r} is not allowed; allowed: {', '.join(allowed)}")
    way = Way("weights" if by == AS_THEY_ARE else by, text, rounds, seed, length, untie)
    share = (0.5 if task_vector is None else 1.0) if weight is None else weight
    if not isfinite(share):
        raise SpecError(f"weight: {share} is not allowed; allowed: finite numbers, for example 0.5")
    a, b = way.opened(one), way.opened(two)
    with nullcontext() if task_vector is None else Model.open(task_vector) as other:
        base = None if other is None else way.opened(other)
        others = [b] if base is None else [a, b]
        to = a if base is None else base
        for each in others:
            require_same_tokenizer(to, each)
        still, sides, said = by == AS_THEY_ARE, [], "none, merged without alignment"
        for each in others:
            batches: list[Tokens] = []
            if not still:
                said, batches = way.inputs(to, each)
            sides.append(Alignment(to, each, rounds, progress, batches, still=still))
        saved = nearer(lambda: _write(a, base, sides, share, target, progress)).saved
        found = (Aligned(x.two.name, x.one.name, x.total, not x.still) for x in sides)
        return Merged(_formula(share, base is not None, by), share, said, tuple(found), **saved)


def _formula(weight: float, based: bool, by: str) -> str:
    """The formula of the merge."""
    mark = "" if by == AS_THEY_ARE else "'"
    if based:
        return f"A{mark} + {weight:g} (B{mark} - BASE)"
    return f"{1 - weight:g} A + {weight:g} B{mark}"


def _write(
    one: Model,
    base: Model | None,
    sides: list[Alignment],
    weight: float,
    target: str | Path | None,
    progress: Progress,
) -> Saving:
    """Write the merged parts."""
    inputs = [path for side in sides for path in (*side.two.store.inputs, *side.one.store.inputs)]
    with saving(one, target, inputs) as save:
        for done, (part, tensors) in enumerate(_sums(one, base, sides, weight)):
            progress("merging", done, len(one.parts))
            save.part(part, tensors)
    return save


def _sums(
    one: Model, base: Model | None, sides: list[Alignment], weight: float
) -> Iterator[tuple[str, Tensors]]:
    """The merged parts."""
    for parts in zip(*(side.parts() for side in sides), strict=True):
        name, last = parts[-1]
        if base is None:
            first = one.part(name)
            yield name, {n: (1 - weight) * first[n] + weight * x for n, x in last.items()}
        else:
            first, rest = parts[0][1], base.part(name)
            yield name, {n: first[n] + weight * (x - rest[n]) for n, x in last.items()}
