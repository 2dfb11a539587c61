"""Where checkpoints come from, and what they contain, each in one call."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from segre.checkpoint.content_hash import ContentHash, hash_of
from segre.checkpoint.lineage import Lineage, lineage_of
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.overflow import within_float64
from segre.checkpoint.reading import read_json
from segre.checkpoint.small import name_of, small, small_hash
from segre.models import Source

_ALL = 1 << 20
LONGEST = 100_000_000  # bytes of a file with hashes


@within_float64(_ALL)
def lineage(*models: Source, progress: Progress = no_progress) -> Lineage:
    """How two or more checkpoints are related: verdicts on all pairs, distances, a tree.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.commands import move
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     found = lineage(model, move(model, f"{folder}/moved").directory)
    >>> found.verdict, found.groups
    ('same function, moved', (('model', 'moved'),))
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(Model.open(model)) for model in models]
        return lineage_of(opened, progress)


@within_float64(1)
def content_hash(
    model: Source, *, exact: bool = False, progress: Progress = no_progress
) -> ContentHash:
    """The hashes of a model: of its values, and of its function (equal for moved copies).

    With `exact` of its values alone, which works for all families. A model is a checkpoint, or a
    small network: `Weights`, or a .json or .npz file of them.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.commands import move
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     one, two = content_hash(model), content_hash(move(model))
    >>> one.values == two.values, one.value == two.value, one.compare(two).verdict
    (False, True, 'same function')
    """
    if (weights := small(model)) is not None:
        return small_hash(weights, name_of(model, weights), exact=exact)
    with Model.open(model) as opened:
        return hash_of(opened, progress, exact=exact)


def read_hash(path: str | Path) -> ContentHash:
    """Read a file written by `segre model hash --json`."""
    return ContentHash.read(read_json(Path(path), LONGEST))
