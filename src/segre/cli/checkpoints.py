"""Commands that rewrite checkpoints or ask for their origin: model canonical, merge, ..."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segre.cli.output import Out
from segre.cli.tree import look, origins, rewrite
from segre.files import shown


def _agrees(written: Any) -> int:
    return 0 if written.agrees else 3


@look(
    "checkpoint plot",
    """segre model info model
    segre model info model --plot heads.png --json > info.json""",
)
def info(out: Out, checkpoint: Path, plot: Path | None) -> None:
    """What a checkpoint contains, how much of it is redundant, and statistics of its weights."""
    from segre.checkpoint.commands import info as describe

    out.answer(describe, checkpoint, plot=plot)


@rewrite(
    "weights new_weights report seed",
    """segre model canonical model -o model-canonical --report
    segre model canonical small.json -o normal.json""",
    note="Exit code 3: outputs differ by more than rounding can explain.",
)
def canonical(out: Out, weights: Path, **asked: Any) -> None:
    """Write the normal form, which is the same up to rounding for all copies of one function."""
    from segre.checkpoint.any_size import canonical as write

    _write(out, write, "the normal form", weights, **asked)


@rewrite(
    "weights new_weights report seed",
    """segre model move model -o other --seed 1
    segre model move one.json -o two.json && segre same one.json two.json""",
)
def move(out: Out, weights: Path, **asked: Any) -> None:
    """Write different weights with the same function, using random symmetries of every kind."""
    from segre.checkpoint.any_size import move as write

    _write(out, write, "different weights", weights, **asked)


def _write(
    out: Out, write: Any, what: str, weights: Path, new_weights: Path, seed: int, report: bool
) -> None:
    """Write a checkpoint, or a small network, and say what was written."""
    from segre.checkpoint.commands import Written

    with out.progress() as progress:
        written = write(weights, target=new_weights, report=report, seed=seed, progress=progress)
    if isinstance(written, Written):
        out.emit(written, code=_agrees(written))
        return
    out.emit(
        data={"file": shown(new_weights), "spec": str(written.spec), "seed": seed},
        lines=[f"{new_weights}: {what} of {written.spec} with the same function"],
    )


@rewrite(
    "one two folder by text length rounds untie seed",
    "segre model align base fine-tuned -o fine-tuned-aligned\n"
    "segre model align one two -o aligned --by activations --text words.txt",
    note="Then merge with any tool, or with `segre model merge`.",
)
def align(out: Out, one: Path, two: Path, folder: Path, **asked: Any) -> None:
    """Write the second checkpoint, moved towards the first by symmetries.

    Its function stays the same, which is checked. Distances and cosines are printed by block.
    """
    from segre.checkpoint.commands import align as write

    out.answer(write, one, two, folder, code=_agrees, **asked)


@rewrite(
    "one two folder weight task_vector by text length rounds untie seed",
    """segre model merge one two -o merged
    segre model merge one two -o merged --weight 0.3
    segre model merge one two -o merged --by activations --text words.txt
    segre model merge chat code -o both --task-vector base""",
)
def merge(out: Out, one: Path, two: Path, folder: Path, **asked: Any) -> None:
    """Align the second checkpoint to the first, then merge both: (1 - W) A + W B'.

    With --task-vector BASE, both are aligned to BASE, and A' + W (B' - BASE) is written. The result
    has the dtypes, config and tokenizer of the first checkpoint. --by none merges without aligning.
    """
    from segre.checkpoint.merge import merge as write

    out.answer(write, one, two, folder, **asked)


@rewrite(
    "one others losses length points plot",
    """segre model barrier one two --text words.txt
    segre model barrier one two two-aligned --text words.txt --plot line.png""",
)
def barrier(out: Out, one: Path, others: list[Path], losses: Path, **asked: Any) -> None:
    """The loss along the straight line from one checkpoint to each of the others.

    The loss is the mean cross-entropy of the next token. The barrier is the largest amount by which
    it exceeds the straight line between its values at the ends.
    """
    from segre.checkpoint.barrier import barrier as measure

    out.answer(measure, one, *others, text=losses, **asked)


@rewrite(
    "checkpoint folder",
    "segre model shrink model -o small && segre model expand small -o again",
)
def shrink(out: Out, checkpoint: Path, folder: Path) -> None:
    """Store the normal form without the entries that follow from the others."""
    from segre.checkpoint.commands import shrink as write

    out.answer(write, checkpoint, folder)


@rewrite("shrunk folder", "segre model expand small -o model")
def expand(out: Out, shrunk: Path, folder: Path) -> None:
    """Rebuild the normal form, up to rounding, from a directory written by `shrink`."""
    from segre.checkpoint.commands import expand as write

    with out.progress() as progress:
        write(shrunk, folder, progress)
    said = f"{folder}: the normal form, an ordinary model directory"
    out.emit(data={"directory": shown(folder)}, lines=[said])


@rewrite("gguf folder", "segre model convert model.gguf -o model")
def convert(out: Out, gguf: Path, folder: Path) -> None:
    """Write a GGUF file as an ordinary model directory (float32, safetensors)."""
    from segre.checkpoint.commands import convert as write

    with out.waiting("converting"):
        write(gguf, folder)
    out.emit(data={"directory": shown(folder)}, lines=[f"{folder}: an ordinary model directory"])


@origins(
    "checkpoints plot",
    """segre model lineage base other
    segre model lineage base one two three --plot tree.png --json""",
    note="Exit code for two checkpoints: 0 a common origin; 1 no evidence of one; 3 undecided.",
)
def lineage(out: Out, checkpoints: list[Path], plot: Path | None) -> None:
    """Do checkpoints have a common origin, and what was done to them? All pairs, and a tree."""
    from segre.checkpoint.lineage import lineage as related

    def code(found: Any) -> int:
        alone = len(found.pairs) == 1
        return {True: 0, False: 1, None: 3}[found.pairs[0].related] if alone else 0

    out.answer(related, *checkpoints, plot=plot, data={"plot": None}, code=code)


@origins(
    "checkpoints exact known",
    """segre model hash model
    segre model hash one two three
    segre model hash model --json > model.json
    segre model hash other --compare model.json""",
    note="The function hash misses very small changes: docs/lineage.md says which, with measured "
    "figures.\nExit code 1 with --compare: different.",
    name="hash",
)
def content_hash(out: Out, checkpoints: list[Path], exact: bool, known: Path | None) -> None:
    """A hash of the contents of each checkpoint, the same for all copies of one function."""
    from segre.checkpoint.content_hash import LONGEST, ContentHash, Hashes
    from segre.checkpoint.content_hash import content_hash as computed
    from segre.checkpoint.reading import read_json as read

    other = None if known is None else ContentHash.read(read(known, LONGEST))
    with out.progress() as progress:
        every = tuple(computed(model, exact=exact, progress=progress) for model in checkpoints)
    found = every[0] if len(every) == 1 else Hashes(every)
    if other is None:
        out.emit(found)
        return
    agreed = [one.compare(other) for one in every]
    documents = [{"verdict": x.verdict, "reason": x.reason} for x in agreed]
    names = [f"{one.name}, " if len(every) > 1 else "" for one in every]
    out.emit(
        found,
        data={"compared": documents[0] if len(every) == 1 else documents},
        lines=[
            f"{name}compared: {x.verdict}; {x.reason}"
            for name, x in zip(names, agreed, strict=True)
        ],
        code=int(any(x.verdict == "different" for x in agreed)),
    )


@origins(
    "one two element",
    "segre model check one two turn.safetensors",
    note="Exit code 0: the witness holds; 1: it does not.",
)
def check(out: Out, one: Path, two: Path, element: Path) -> None:
    """Check that a witness maps the second checkpoint to the first; nothing is searched for."""
    from segre.checkpoint.commands import check as verify

    out.answer(verify, one, two, element, code=lambda found: 0 if found.value else 1)
