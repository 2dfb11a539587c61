"""Commands that look inside a model: diagnose and trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli import completion
from segre.cli.options import Memory, Seed, memory_bytes
from segre.cli.output import TableOut
from segre.cli.pages import again, require_writable, write

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model directory; or, with random weights, the name, config or spec of a "
        "transformer.",
        autocompletion=completion.architecture,
    ),
]
Text = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Text file to run on (default: random tokens)."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE.html", help="Also write an HTML page."),
]
Length = Annotated[int, typer.Option(help="Largest number of tokens to read from the text.", min=2)]


def diagnose(
    context: typer.Context,
    model: Model,
    text: Text = None,
    length: Length = 64,
    control: Annotated[
        bool,
        typer.Option("--control", help="Also measure a copy with random weights, for comparison."),
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="DEPTH:TOKEN:CHANNEL=VALUE",
            help="Set one number of the stream to a value or to the median, and report the effect.",
        ),
    ] = None,
    ablate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART",
            help="Ablate a head (LAYER.HEAD) or an MLP (mlp:LAYER), and report the effect.",
        ),
    ] = None,
    output: Output = None,
    seed: Seed = 0,
    out: TableOut = TableOut(),
) -> None:
    """Find anomalies in a model: spikes, sinks, dead heads, rank, gradients."""
    from segre.inspect.diagnose import diagnose as look

    require_writable(page=output)
    with out.progress() as progress:
        found = look(
            model,
            text=text,
            length=length,
            control=control,
            settings=set_ or (),
            ablations=ablate or (),
            seed=seed,
            progress=progress,
        )
    write(found, output, again(context))
    out.emit(found, files={"page": output} if output is not None else None)


def trace(
    context: typer.Context,
    model: Model,
    text: Text = None,
    target: Annotated[
        str,
        typer.Option(
            metavar="POSITION[:TOKEN]",
            help="The output: a position (0 is the first, -1 the last), optionally with the id of "
            "the token whose logit to explain (default: the likeliest).",
        ),
    ] = "-1",
    length: Length = 64,
    dense: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npy",
            help="Write the whole operator to this file, an (n d) x (n d) matrix.",
        ),
    ] = None,
    output: Output = None,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: TableOut = TableOut(),
) -> None:
    """Find the input tokens that an output comes from, by four methods."""
    from segre.inspect.trace import trace as follow
    from segre.sequence.files import require_array_file, write_array

    require_writable(page=output)
    if dense is not None:
        require_array_file(dense)
    with out.progress() as progress:
        found = follow(
            model,
            text=text,
            target=target,
            length=length,
            seed=seed,
            whole=dense is not None,
            memory=memory_bytes(memory),
            progress=progress,
        )
    if dense is not None:
        assert found.operator is not None
        write_array(dense, found.operator)
    write(found, output, again(context))
    files = {"operator": dense, "page": output}
    out.emit(found, files={what: file for what, file in files.items() if file is not None})


COMMANDS = (
    (
        diagnose,
        """Examples:
    segre diagnose model --text book.txt
    segre diagnose model --text book.txt --control -o diagnosis.html
    segre diagnose model --text book.txt --set 12:0:507=median --ablate 3.7

Depth 0 is before the first layer, depth 1 after it. Layers and heads are counted from 1, tokens and
channels from 0. Each intervention is compared with controls: the same change at other places.""",
    ),
    (
        trace,
        """Examples:
    segre trace model --text book.txt
    segre trace model --text book.txt --target 12:345 --json
    segre trace model --text line.txt --length 8 --dense operator.npy

The terms of the operator and the constants sum to the output; scores of other methods do not.""",
    ),
)
