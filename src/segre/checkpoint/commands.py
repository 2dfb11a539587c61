"""Operations on checkpoints, each in one call.

A checkpoint is anything that `opening` accepts: a directory, a file, a model in memory, and so on.
Functions that write a checkpoint write a directory or, without a target, return the weights in
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from segre.checkpoint.align import Alignment, Nearness, nearer
from segre.checkpoint.canonical import canonical_parts, moved_parts
from segre.checkpoint.function import require_same_architecture
from segre.checkpoint.gguf import convert
from segre.checkpoint.info import info
from segre.checkpoint.inputs import Way
from segre.checkpoint.layout import Tensors, place_of
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.opening import in_place, write_back
from segre.checkpoint.outputs import furthest, outputs, random_tokens
from segre.checkpoint.overflow import on_models
from segre.checkpoint.same import check, outputs_tolerance, same
from segre.checkpoint.saving import Saved, converted, saving
from segre.checkpoint.shrunk import expand, shrink
from segre.checkpoint.sizes import apart, inner
from segre.files import shown
from segre.models import Source
from segre.shown import Tabular

__all__ = [
    "align",
    "apply",
    "canonical",
    "check",
    "convert",
    "expand",
    "info",
    "move",
    "same",
    "shrink",
]

Where = str | Path


@dataclass(frozen=True)
class Moved:
    """One tensor before and after: how much of it changed."""

    part: str
    name: str
    change: float  # norm of the change, relative to the norm before

    @property
    def title(self) -> str:
        """As in reports: layer 3, W_Q."""
        return f"{place_of(self.part)}, {self.name}"


@dataclass(frozen=True)
class Written(Saved, Tabular):
    """A checkpoint that was written, and how it compares with its source."""

    roundoff: float
    changes: tuple[Moved, ...]
    difference: float | None = None  # largest difference of outputs, relative; None if not asked
    tolerance: float = 0.0  # what rounding explains of it
    unused: tuple[str, ...] = ()  # tensors that were left out
    what: str = ""  # what it is, in words
    blocks: tuple[Nearness, ...] = ()  # align: distances by block, the whole model last
    by: str = ""  # align: what it went by, in words

    @property
    def agrees(self) -> bool:
        """Whether outputs agree up to rounding, if they were compared."""
        return self.difference is None or self.difference <= self.tolerance

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "directory": None if self.directory is None else shown(self.directory),
            "roundoff": self.roundoff,
            "outputs": {"difference": self.difference, "tolerance": self.tolerance},
            "changes": [vars(change) for change in self.changes],
            "left_out": list(self.unused),
            **({"by": self.by} if self.by else {}),
            **({"blocks": [b.document() for b in self.blocks]} if self.blocks else {}),
        }


@on_models(1)
def canonical(
    directory: Source,
    target: Where | None = None,
    *,
    report: bool = True,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Written:
    """The normal form, in a new directory or in memory; `report` compares outputs.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     written = canonical(model, f"{folder}/normal")
    >>> written.agrees, written.what
    (True, 'the normal form, with the same function')
    """
    parts, what = canonical_parts(directory), "the normal form, with the same function"
    return _write(directory, parts, target, what, report=report, seed=seed, progress=progress)


@on_models(1)
def move(
    directory: Source,
    target: Where | None = None,
    *,
    seed: int = 0,
    report: bool = True,
    progress: Progress = no_progress,
) -> Written:
    """Random other weights with the same function, in a new directory or in memory.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     written = move(model, f"{folder}/moved", seed=1)
    >>> written.agrees, written.what
    (True, 'different weights (seed 1) with the same function')
    """
    parts, what = moved_parts(directory, seed), f"different weights (seed {seed})"
    what = f"{what} with the same function"
    return _write(directory, parts, target, what, report=report, seed=seed, progress=progress)


@on_models(2)
def align(
    one: Source,
    two: Source,
    target: Where | None = None,
    *,
    by: str = "weights",
    text: Where | None = None,
    length: int | None = None,
    rounds: int = 1,
    untie: bool = False,
    report: bool = True,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Written:
    """The second checkpoint, moved towards the first by symmetries.

    `by` is "weights" or "activations". With activations, both are run on the beginning of a `text`
    (with their tokenizer) or on random tokens, in sequences of `length`. Each of the `rounds`
    recomputes the basis of the stream. `untie` gives both a separate unembedding, a copy of their
    token table: the stream can then be rotated, while a tied table only allows it to be permuted.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     moved = move(model, f"{folder}/moved").directory
    ...     before, after = align(model, moved, f"{folder}/aligned").blocks[-1].distances()
    >>> before > 0.5, after < 1e-5
    (True, True)
    """
    way = Way(by, text, rounds, seed, length, untie)
    a, b = way.opened(one), way.opened(two)
    said, batches = way.inputs(a, b)
    alignment = Alignment(a, b, rounds, progress, batches)
    how: dict[str, Any] = {"report": report, "seed": seed, "progress": progress, "other": a}
    written = nearer(lambda: _write(b, alignment.parts(), target, **how))
    blocks = (*alignment.blocks.values(), alignment.total)
    return replace(written, blocks=blocks, by=said)


def apply(model: Source, weights: Source) -> None:
    """Write the weights of a checkpoint into a model in memory, in place.

    `weights` is the result of `canonical`, `move` or `align`, or any other checkpoint of the same
    architecture. Tensors that it does not have stay unchanged.

    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     moved = move(example(f"{folder}/model"), seed=1)
    >>> mine = {name: np.zeros_like(tensor) for name, tensor in moved.tensors.items()}
    >>> apply((mine, moved.config), moved)
    >>> same((mine, moved.config), moved).verdict
    'identical'
    """
    targets = in_place(model)
    with Model.open(model) as mine, Model.open(weights) as theirs:
        require_same_architecture(mine, theirs)
        arrays = {}
        for part, every in mine.held.items():
            files = {held.label: held.file for held in theirs.held[part]}
            alike = all(held.label in files for held in every)
            packed = {} if alike else theirs.part(part)  # experts each by themselves, or together
            for held in every:
                array = theirs.store.raw(files[held.label]) if alike else held.pack(packed)
                arrays[held.file] = converted(mine.store.entries[held.file], array)
        arrays |= {again: arrays[name] for again, name in mine.copies.items()}
        write_back(targets, {name: np.array(array) for name, array in arrays.items()})


def _write(
    model: Model,
    parts: Iterator[tuple[str, Tensors]],
    target: Where | None,
    what: str = "",
    *,
    report: bool,
    seed: int,
    progress: Progress,
    other: Model | None = None,
) -> Written:
    """Write parts as they come, and compare with the model that they came from."""
    inputs = [] if other is None else other.store.inputs
    changes, difference, unit = list[Moved](), None, model.roundoff()

    def compared(place: Any) -> None:
        """Compare outputs with those of what was written, before it gets its name."""
        nonlocal difference
        if report:
            tokens = random_tokens(model.spec, seed)
            with Model.open(place) as written:
                ours, theirs = (outputs(each, tokens, progress) for each in (model, written))
            difference = furthest(ours, theirs)

    with saving(model, target, inputs, compared) as save:
        for done, (part, tensors) in enumerate(parts):
            progress("writing", done, len(model.parts))
            save.part(part, tensors)
            # a call, so that no tensor outlives it while the next part is computed
            changes += _moved(model, part, tensors) if report else ()
    tolerance = outputs_tolerance(unit)
    return Written(unit, tuple(changes), difference, tolerance, model.unused, what, **save.saved)


def _moved(model: Model, part: str, tensors: Tensors) -> Iterator[Moved]:
    """How far each tensor of a part is from what it was."""
    for name, value in tensors.items():
        before = model.part(part, [name])[name]
        size = inner(before, before)
        yield Moved(
            part, name, (apart(before, value) / size) ** 0.5 if size else float(value.any())
        )
