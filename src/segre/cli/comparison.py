"""The command that puts designs side by side: compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli.options import Defaults, Memory, Seed, Specs, meant, memory_bytes, token_counts
from segre.cli.output import TableOut
from segre.cli.pages import again, draw, require_writable, write


def compare(
    context: typer.Context,
    specs: Specs,
    tokens: Annotated[
        str,
        typer.Option(
            "--t",
            metavar="N,...",
            help="Sequence lengths at which to count costs, such as 4k,32k; k is 1024.",
        ),
    ] = "4k,32k",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.html", help="Also write an HTML page."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw a plot: .png, .svg or .pdf.")
    ] = None,
    defaults: Defaults = False,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: TableOut = TableOut(),
) -> None:
    """Put designs side by side: dimension, redundancy, collapse, guarantees, cost."""
    from segre.analysis.comparison import compare as side_by_side
    from segre.models.lists import listed

    require_writable(plot=plot, page=output)
    with out.progress() as progress:
        found = side_by_side(
            *(meant(spec, defaults) for spec in listed(specs)),
            t=token_counts(tokens),
            seed=seed,
            memory=memory_bytes(memory),
            progress=progress,
        )
    draw(found, plot)
    write(found, output, again(context, specs=specs if defaults else found.names))
    files = {"plot": plot, "page": output}
    out.emit(found, files={what: file for what, file in files.items() if file is not None})


COMMANDS = (
    (
        compare,
        """Examples:
    segre compare llama-3-8b llama-3-8b/kv=32 llama-3-8b/tied=true
    segre compare softmax/d=8,8/a=4/t=3 double/d=8,8/a=4/t=3 --t 4k,1M
    segre compare gpt2 llama-3-8b -o designs.html --plot designs.png
    segre compare - --csv < specs.txt""",
    ),
)
