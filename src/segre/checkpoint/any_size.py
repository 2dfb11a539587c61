"""What is asked alike of small networks and of checkpoints: are two the same, and another of it.

A small network is `Weights`, or a .json or .npz file of them; everything else is a checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack, overload

from segre.checkpoint import commands
from segre.checkpoint.commands import Written, check
from segre.checkpoint.comparison import Comparison
from segre.checkpoint.model import Progress, no_progress
from segre.checkpoint.small import Small, small
from segre.errors import CheckpointError, SegreError
from segre.geometry.fiber import canonical as normal_form
from segre.geometry.fiber import sample
from segre.geometry.normal_form import TOLERANCE
from segre.geometry.same import Comparison as SmallComparison
from segre.geometry.same import same_function
from segre.models import Source
from segre.weights import PolynomialWeights, Weights


class _Compared(TypedDict, total=False):
    """What `same` is told besides the two networks."""

    tolerance: float
    seed: int
    witness: Path | None
    progress: Progress


class _Moved(TypedDict, total=False):
    """What `move` is told besides the network."""

    target: str | Path | None
    report: bool
    progress: Progress


@overload
def same(one: Small, two: Small, **told: Unpack[_Compared]) -> SmallComparison: ...
@overload
def same(one: Source, two: Source, **told: Unpack[_Compared]) -> SmallComparison | Comparison: ...


def same(
    one: Source,
    two: Source,
    *,
    tolerance: float = TOLERANCE,
    seed: int = 0,
    witness: Path | None = None,
    progress: Progress = no_progress,
) -> SmallComparison | Comparison:
    """Whether two networks, `one` and `two`, are the same function: both small, or checkpoints.

    Fractions are compared exactly; floats of small networks agree if they differ by at most
    `tolerance`, relative. Checkpoints are directories, files and models in memory; they are
    compared as by `checkpoints.same`, which knows its tolerances. If they are the same, the group
    element that maps the second to the first is written to `witness`, read back and checked.

    >>> w = Weights.random("lightning/d=3,3,3/a=2/t=2", exact=True)
    >>> same(w, w).verdict, same(w, w).proved
    ('same', True)
    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     same(model, example(f"{folder}/other", seed=1)).verdict
    'different'
    """
    a, b = small(one), small(two)
    if a is not None and b is not None:
        if witness is not None:
            raise SegreError("a witness is of two checkpoints; small networks have none")
        return same_function(a, b, tolerance=tolerance, seed=seed)
    if a is not None or b is not None:
        raise SegreError(
            "the networks cannot be compared: one is the weights of a small network, the other a "
            "checkpoint"
        )
    found = commands.same(one, two, seed=seed, progress=progress)
    if witness is not None and found.witness is not None and found.same:
        found.witness.write(witness)
        if not check(one, two, witness, progress=progress).value:
            raise CheckpointError(f"witness {str(witness)!r} fails its check when it is read back")
    return found


@overload
def move(source: Weights, seed: int = 0, **told: Unpack[_Moved]) -> Weights: ...
@overload
def move(source: Source, seed: int = 0, **told: Unpack[_Moved]) -> Weights | Written: ...


def move(
    source: Source,
    seed: int = 0,
    *,
    target: str | Path | None = None,
    report: bool = False,
    progress: Progress = no_progress,
) -> Weights | Written:
    """Random other weights with the function of `source`, in memory or written to `target`.

    Those of a small network are `Weights`; those of a checkpoint can be given to every function
    that takes one, and `report` compares outputs.

    >>> w = Weights.random("softmax/d=3,3,3/a=2/t=2", exact=True)
    >>> moved = move(w, seed=1)
    >>> bool((moved.vector == w.vector).all()), same(moved, w).verdict
    (False, 'same')
    """
    weights = small(source)
    if weights is None:
        return commands.move(source, target, seed=seed, report=report, progress=progress)
    return _written(sample(_stack(weights, "move"), seed), target, report)


def canonical(
    source: Source,
    *,
    target: str | Path | None = None,
    report: bool = False,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Weights | Written:
    """The weights in normal form, in memory or written to `target`; otherwise as `move`.

    >>> w = Weights.random("softmax/d=3,3/a=2/t=2", exact=True)
    >>> bool((canonical(w).vector == canonical(move(w)).vector).all())
    True
    """
    weights = small(source)
    if weights is None:
        return commands.canonical(source, target, seed=seed, report=report, progress=progress)
    normal = normal_form(_stack(weights, "canonical")).weights()
    if normal is None:
        raise SegreError("only sums over heads are determined, so no weights are the normal form")
    return _written(normal, target, report)


def _stack(weights: Small, asked: str) -> Weights:
    if isinstance(weights, PolynomialWeights):
        raise SegreError(f"{asked} does not support polynomial networks; allowed: attention stacks")
    return weights


def _written(weights: Weights, target: str | Path | None, report: bool) -> Weights:
    if report:
        raise SegreError("--report is for checkpoints; compare small networks with segre same")
    if target is not None:
        weights.write(Path(target))
    return weights
