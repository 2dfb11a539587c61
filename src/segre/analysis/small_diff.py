"""What changed between two models of any size? Small networks have normal forms to compare."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from segre.analysis.diff import INPUTS, LENGTH, Diff
from segre.analysis.diff import diff as checkpoint_diff
from segre.checkpoint.model import Progress, no_progress
from segre.checkpoint.outputs import relative
from segre.checkpoint.small import Small, name_of, outputs_of, small
from segre.errors import SegreError
from segre.fields.interface import Array
from segre.finding import Status, Unbounded
from segre.geometry.normal_form import canonical
from segre.geometry.same import same_function
from segre.geometry.verdict import Comparison
from segre.models import Source
from segre.shown import Tabular
from segre.weights import Weights, common_kind


@dataclass(frozen=True)
class SmallDiff(Unbounded, Tabular):
    """What changed from one small network to another; distances are relative to the first."""

    one: str
    two: str
    same: Comparison
    stored: float | None  # of the weights; None if the designs differ
    outputs: float  # at random inputs
    invariants: tuple[tuple[str, float], ...]  # of the normal forms, as far as both have them

    @property
    def value(self) -> float:
        """The relative distance of outputs."""
        return self.outputs

    @property
    def status(self) -> Status:
        """Distances are measured, in floats."""
        return "measured"

    @property
    def how(self) -> str:
        """How they are measured."""
        return f"outputs at {INPUTS} random inputs, relative to the first"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        invariants = [{"name": name, "distance": far} for name, far in self.invariants]
        return {
            "one": self.one,
            "two": self.two,
            "same": self.same.document(),
            "outputs": self.outputs,
            "stored": self.stored,
            "invariants": invariants,
        }


@overload
def diff(one: Small, two: Small, *, seed: int = 0) -> SmallDiff: ...
@overload
def diff(
    one: Source,
    two: Source,
    *,
    text: str | Path | None = None,
    inputs: int = INPUTS,
    length: int = LENGTH,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Diff | SmallDiff: ...


def diff(
    one: Source,
    two: Source,
    *,
    text: str | Path | None = None,
    inputs: int = INPUTS,
    length: int = LENGTH,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Diff | SmallDiff:
    """What changed from the first model, `one`, to the second, `two`.

    Outputs of checkpoints are compared on the beginning of `text`, or on random tokens; those of
    small networks at random inputs.

    >>> import segre
    >>> w = segre.Weights.random("lightning/d=3,3/a=2/t=2")
    >>> found = segre.diff(w, segre.move(w))
    >>> found.outputs < 1e-9 < 0.1 < found.stored
    True
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     model = segre.checkpoints.example(f"{folder}/model")
    ...     moved = segre.checkpoints.move(model, f"{folder}/moved")
    ...     found = segre.diff(model, moved.directory)
    >>> found.value < 1e-6, round(found.gauge, 6), found.changed
    (True, 1.0, [])
    """
    a, b = small(one), small(two)
    if a is not None and b is not None:
        if text is not None:
            raise SegreError("a text is for checkpoints; small networks are compared on numbers")
        return _small_diff(a, b, name_of(one, a), name_of(two, b), seed)
    if a is not None or b is not None:
        raise SegreError("one is the weights of a small network, the other a checkpoint")
    asked: dict[str, Any] = {"text": text, "inputs": inputs, "length": length, "seed": seed}
    return checkpoint_diff(one, two, **asked, progress=progress)


def _small_diff(one: Small, two: Small, name: str, other: str, seed: int) -> SmallDiff:
    same = same_function(one, two, seed=seed)  # refuses what cannot be compared
    shape = INPUTS, one.spec.widths[0], one.spec.t
    X = np.random.default_rng(seed).standard_normal(shape)
    invariants: list[tuple[str, float]] = []
    if isinstance(one, Weights) and isinstance(two, Weights):
        theirs = dict(canonical(two).invariants)
        for what, x in canonical(one).invariants:
            if what in theirs and theirs[what].shape == x.shape:
                invariants.append((what, _distance(x, theirs[what])))
    stored = _distance(one.vector, two.vector) if one.spec == two.spec else None
    outputs = _distance(*(outputs_of(w, X)[0] for w in (one, two)))
    return SmallDiff(name, other, same, stored, outputs, tuple(invariants))


def _distance(one: Array, two: Array) -> float:
    """Relative to the first, in floats."""
    x, y, _ = common_kind([one, two, np.zeros(0)])
    return relative(float(np.linalg.norm(x - y)), float(np.linalg.norm(x)))
