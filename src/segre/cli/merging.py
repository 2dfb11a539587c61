"""Commands that merge checkpoints: weights merge, barrier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli.options import Seed
from segre.cli.output import Out
from segre.cli.pages import draw, require_writable
from segre.cli.weight_options import By, First, Length, Rounds, Second, Target, Text, Untie


def merge(
    one: First,
    two: Second,
    output: Target,
    weight: Annotated[
        float | None,
        typer.Option(
            metavar="W",
            help="Weight of the second checkpoint (default: 0.5), or factor of the "
            "task vector (default: 1).",
        ),
    ] = None,
    task_vector: Annotated[
        Path | None,
        typer.Option(
            metavar="BASE",
            help="The common base model: the change from it to the second is added to the first.",
        ),
    ] = None,
    by: By = "weights",
    text: Text = None,
    length: Length = None,
    rounds: Rounds = 1,
    untie: Untie = False,
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Align the second checkpoint to the first, then merge both: (1 - W) A + W B'.

    With --task-vector BASE, both are aligned to BASE, and A' + W (B' - BASE) is written. The result
    has the dtypes, config and tokenizer of the first checkpoint. --by none merges without aligning.
    """
    from segre.checkpoint.merge import merge as write

    with out.progress() as progress:
        merged = write(
            *(one, two, output),
            weight=weight,
            task_vector=task_vector,
            by=by,
            text=text,
            length=length,
            rounds=rounds,
            untie=untie,
            seed=seed,
            progress=progress,
        )
    out.emit(merged)


def barrier(
    one: First,
    others: Annotated[
        list[Path],
        typer.Argument(metavar="B", help="The checkpoints at the other ends of the lines."),
    ],
    text: Annotated[
        Path, typer.Option(metavar="FILE", help="Text file on which losses are measured.")
    ],
    length: Length = None,
    points: Annotated[int, typer.Option(metavar="N", help="Number of points on each line.")] = 11,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw a plot: .png, .svg or .pdf.")
    ] = None,
    out: Out = Out(),
) -> None:
    """The loss along the straight line from one checkpoint to each of the others.

    The loss is the mean cross-entropy of the next token. The barrier is the largest amount by which
    it exceeds the straight line between its values at the ends.
    """
    from segre.checkpoint.barrier import barrier as measure

    require_writable(plot=plot)
    with out.progress() as progress:
        found = measure(one, *others, text=text, length=length, points=points, progress=progress)
    draw(found, plot)
    out.emit(found, lines=() if plot is None else [f"plot: {plot}"])


COMMANDS = (
    (
        "merge",
        merge,
        """Examples:
    segre weights merge one two -o merged
    segre weights merge one two -o merged --weight 0.3
    segre weights merge one two -o merged --by activations --text words.txt
    segre weights merge chat code -o both --task-vector base""",
    ),
    (
        "barrier",
        barrier,
        """Examples:
    segre weights barrier one two --text words.txt
    segre weights barrier one two two-aligned --text words.txt --plot line.png""",
    ),
)
