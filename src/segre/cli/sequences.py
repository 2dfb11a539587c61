"""Commands about long sequences: run, cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli import completion
from segre.cli.options import Memory, Spec, StackSpec, memory_bytes, token_counts
from segre.cli.output import Out, TableOut
from segre.cli.pages import draw, require_writable
from segre.files import shown

METHODS = ("auto", "dense", "linear", "band")


def run(
    spec: StackSpec,
    weights: Annotated[
        Path,
        typer.Option(
            "--weights",
            "-w",
            metavar="FILE",
            help="Weights of the stack: .npz or .json (docs/geometry.md), or .safetensors.",
        ),
    ],
    given: Annotated[
        Path,
        typer.Option(
            "--input", "-i", metavar="FILE", help="Input, one token per row: .npy or .safetensors."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="File to write: .npy or .safetensors."),
    ],
    method: Annotated[
        str,
        typer.Option(
            help="auto (the method expected to be fastest), dense (the attention pattern, some "
            "rows at a time), linear (features and a running state) or band (only keys within "
            "the window).",
            autocompletion=completion.one_of(lambda: METHODS),
        ),
    ] = "auto",
    block: Annotated[
        int | None, typer.Option(help="Tokens per block (default: chosen by size).")
    ] = None,
    memory: Memory = "8G",
    out: Out = Out(),
) -> None:
    """Run a stack of attention layers on a long sequence."""
    from segre.sequence.attend import attend
    from segre.sequence.files import read_array, require_array_file, write_array

    require_array_file(output)
    with out.waiting("running"):
        found = attend(
            spec,
            weights,
            read_array(given),
            method,
            block=block,
            memory=memory_bytes(memory),
        )
        write_array(output, found)
    shape = " x ".join(map(str, found.shape))
    out.emit(
        data={"file": shown(output), "shape": list(found.shape), "dtype": str(found.dtype)},
        lines=[f"{output}: {shape}, {found.dtype}"],
    )


def cost(
    spec: Spec,
    tokens: Annotated[
        str,
        typer.Option(
            "--t",
            metavar="N,...",
            help="Sequence lengths, such as 4096, 4k,32k or 1M; k is 1024.",
        ),
    ] = "",
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also draw a plot: .png, .svg or .pdf."),
    ] = None,
    out: TableOut = TableOut(),
) -> None:
    """What a network costs on long sequences: operations, memory, state."""
    from segre.sequence.cost import cost as costs

    require_writable(plot=plot)
    found = costs(spec, token_counts(tokens) if tokens else None)
    draw(found, plot)
    out.emit(found, files={} if plot is None else {"plot": plot})


COMMANDS = (
    (
        run,
        """Examples:
    segre run softmax/d=8,8/a=4/t=3 --weights w.npz --input x.npy -o y.npy
    segre run lightning/d=8,8/a=4/t=3 -w w.npz -i x.npy -o y.npy

The number of tokens is that of the input; t in the spec does not limit it.""",
    ),
    (
        cost,
        """Examples:
    segre cost lightning/d=64,64/a=64/t=3 --t 4k,32k
    segre cost llama-3-8b --t 4k,32k,128k --csv
    segre cost fast/d=64,64/a=16/t=3 --t 64,1k,16k --plot fast.png""",
    ),
)
