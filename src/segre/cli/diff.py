"""The command that says what changed between two checkpoints: diff."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli.options import Seed
from segre.cli.output import TableOut
from segre.cli.pages import again, draw, require_writable, write
from segre.cli.weight_options import First, Second


def diff(
    context: typer.Context,
    one: First,
    two: Second,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Text file on which to compare outputs (default: random tokens)."
        ),
    ] = None,
    inputs: Annotated[int, typer.Option(help="Number of pieces of the text.", min=1)] = 4,
    length: Annotated[int, typer.Option(help="Largest number of tokens in a piece.", min=2)] = 64,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.html", help="Also write an HTML page."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw a plot: .png, .svg or .pdf.")
    ] = None,
    seed: Seed = 0,
    out: TableOut = TableOut(),
) -> None:
    """What changed between two checkpoints: where, how much, in how many directions."""
    from segre.analysis.diff import diff as difference

    require_writable(plot=plot, page=output)
    with out.progress() as progress:
        found = difference(
            one, two, text=text, inputs=inputs, length=length, seed=seed, progress=progress
        )
    draw(found, plot)
    write(found, output, again(context))
    files = {"plot": plot, "page": output}
    out.emit(found, files={what: file for what, file in files.items() if file is not None})


COMMANDS = (
    (
        diff,
        """Examples:
    segre diff base fine-tuned
    segre diff base fine-tuned --text sample.txt -o changes.html
    segre diff base fine-tuned --plot changes.png --json > changes.json

Only changes of the function are reported. The files may differ in dtype, sharding, prefix and
padding of the vocabulary, and the second may be rotated, permuted or rescaled by symmetries.""",
    ),
)
