"""Commands about depth: collapse, paths."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli import completion
from segre.cli.options import Defaults, Memory, Seed, meant, memory_bytes
from segre.cli.output import Out
from segre.cli.pages import draw, require_writable

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model directory; or, with random weights, a config.json, a name such as "
        "bert-base-uncased or a spec such as softmax/d=8,8,8,8/a=4/t=6.",
        autocompletion=completion.architecture,
    ),
]
Inputs = Annotated[int, typer.Option(help="Number of inputs.", min=1)]
Length = Annotated[
    int | None,
    typer.Option(
        help="Tokens per input (default: 128, or the model's maximum if that is smaller).", min=2
    ),
]
Text = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Take inputs from a text file, with the model's tokenizer."),
]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also draw a plot: .png, .svg or .pdf.")
]


def collapse(
    model: Model,
    variants: Annotated[
        str,
        typer.Option(
            help="all (8 variants), paper (4, norms kept), what-if (attention changed), or names "
            "such as full, attention and full:window=8; separate several with commas.",
            autocompletion=completion.several_of(completion.variants),
        ),
    ] = "all",
    inputs: Inputs = 8,
    length: Length = None,
    text: Text = None,
    ranks: Annotated[
        bool, typer.Option("--ranks", help="Also measure ranks and spectra (slower).")
    ] = False,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="For specs: prove the residuals of the first input in ball arithmetic.",
        ),
    ] = False,
    threshold: Annotated[
        float, typer.Option(help="Residual below which tokens count as collapsed.", min=0)
    ] = 1e-3,
    fuse: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="Also measure the streams of all layers fused by max, mean or concat.",
        ),
    ] = None,
    plot: Plot = None,
    defaults: Defaults = False,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: Out = Out(),
) -> None:
    """Do tokens become alike with depth? The model as it is, and with parts removed."""
    require_writable(plot=plot)
    from contextlib import nullcontext

    from segre.collapse.commands import measure, own_spec

    given = meant(model, defaults)
    stack = own_spec(given) is not None  # which does not say how far it is
    with out.waiting("measuring") if stack else nullcontext(), out.progress() as progress:
        found = measure(
            given,
            variants=variants,
            inputs=inputs,
            length=length,
            text=text,
            ranks=ranks,
            certify=certify,
            threshold=threshold,
            fuse=fuse,
            seed=seed,
            memory=memory_bytes(memory),
            progress=progress,
        )
    draw(found, plot)
    out.emit(found, files={"plot": plot})


def paths(
    model: Model,
    skip: Annotated[
        bool | None,
        typer.Option(
            "--skip/--no-skip", help="With or without skip connections (default: as in the model)."
        ),
    ] = None,
    mlp: Annotated[
        bool, typer.Option("--mlp/--no-mlp", help="Keep the MLPs as fixed linear maps.")
    ] = True,
    norms: Annotated[
        bool, typer.Option("--norm/--no-norm", help="Keep the norms as fixed linear maps.")
    ] = True,
    length: Annotated[
        int | None,
        typer.Option(
            help="Tokens of the input (default: 32, or the model's maximum if that is smaller).",
            min=2,
        ),
    ] = None,
    text: Text = None,
    sample: Annotated[int, typer.Option(help="Also sample this many single paths.", min=0)] = 0,
    of_length: Annotated[
        int | None, typer.Option(help="Length of the sampled paths (default: 1).", min=0)
    ] = None,
    shares: Annotated[
        bool, typer.Option("--shares", help="Only count the paths; needs no weights.")
    ] = False,
    plot: Plot = None,
    defaults: Defaults = False,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: Out = Out(),
) -> None:
    """Write a forward pass as the exact sum over all paths."""
    require_writable(plot=plot)
    from segre.collapse.commands import count_paths, decompose

    given = meant(model, defaults)
    if shares:
        out.emit(count_paths(given))
        return
    with out.waiting("summing over paths"):
        found = decompose(
            given,
            skip=skip,
            mlp=mlp,
            norms=norms,
            length=length,
            text=text,
            sample=sample,
            of_length=of_length,
            seed=seed,
            memory=memory_bytes(memory),
        )
    draw(found, plot)
    out.emit(found, files={"plot": plot})


COMMANDS = (
    (
        collapse,
        """Examples:
    segre collapse bert-base-uncased --plot bert.png
    segre collapse model-directory --text book.txt --variants paper
    segre collapse model-directory --variants what-if
    segre collapse bert-base-uncased --variants attention:gapless,full:gate
    segre collapse softmax/d=16,16,16,16,16,16,16/a=8/heads=2/t=6 --certify

A colon precedes a change of attention: gapless (1/t subtracted from every weight), window=N, gate
(sigmoid(W_G x), W_G random). Changes that the design of a model does not allow are refused.""",
    ),
    (
        paths,
        """Examples:
    segre paths gpt2 --plot paths.png
    segre paths model-directory --sample 5 --of-length 2
    segre paths llama-3-8b --shares""",
    ),
)
