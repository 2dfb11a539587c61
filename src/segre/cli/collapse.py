"""Commands about depth: collapse, paths."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli import completion
from segre.cli.options import Defaults, Memory, Seed, meant, memory_bytes
from segre.cli.output import Out

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model directory, a config.json or a name such as bert-base-uncased (random "
        "weights), or a spec such as softmax/d=8,8,8,8/a=4/t=6.",
        autocompletion=completion.architecture,
    ),
]
Inputs = Annotated[int, typer.Option(help="How many inputs.", min=1)]
Length = Annotated[
    int | None, typer.Option(help="Tokens of an input; 128, or what the model takes.", min=2)
]
Text = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Read a text through the model's tokenizer.")
]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.")]


def collapse(
    model: Model,
    variants: Annotated[
        str,
        typer.Option(
            help="all (8), paper (4, norms kept), what-if (attention changed), names such as "
            "full,attention,full:window=8, or several of these with commas.",
            autocompletion=completion.several_of(completion.variants),
        ),
    ] = "all",
    inputs: Inputs = 8,
    length: Length = None,
    text: Text = None,
    ranks: Annotated[bool, typer.Option("--ranks", help="Ranks and spectra too (slower).")] = False,
    certify: Annotated[
        bool, typer.Option("--certify", help="Specs: prove the first input's residuals in balls.")
    ] = False,
    threshold: Annotated[float, typer.Option(help="What counts as collapsed.", min=0)] = 1e-3,
    fuse: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="Fuse the streams of all layers (max, mean or concat), and measure that too.",
        ),
    ] = None,
    plot: Plot = None,
    defaults: Defaults = False,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: Out = Out(),
) -> None:
    """Do tokens become alike with depth, as it is and with parts removed?"""
    if plot is not None:
        from segre.report.drawing import require_static_format

        require_static_format(plot)
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
    if plot is not None:
        from segre.report.collapse_plots import plot_depth

        plot_depth(found, plot)
    out.emit(found, files={"plot": plot})


def paths(
    model: Model,
    skip: Annotated[
        bool | None,
        typer.Option("--skip/--no-skip", help="With or without skips (default: as the model is)."),
    ] = None,
    mlp: Annotated[
        bool, typer.Option("--mlp/--no-mlp", help="Keep the MLPs, as fixed linear maps.")
    ] = True,
    norms: Annotated[
        bool, typer.Option("--norm/--no-norm", help="Keep the norms, as fixed linear maps.")
    ] = True,
    length: Annotated[
        int | None, typer.Option(help="Tokens of the input; 32, or what the model takes.", min=2)
    ] = None,
    text: Text = None,
    sample: Annotated[int, typer.Option(help="Draw this many single paths, too.", min=0)] = 0,
    of_length: Annotated[
        int | None, typer.Option(help="Length of the sampled paths (default: 1).", min=0)
    ] = None,
    shares: Annotated[
        bool, typer.Option("--shares", help="Only numbers of paths: no weights needed.")
    ] = False,
    plot: Plot = None,
    defaults: Defaults = False,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: Out = Out(),
) -> None:
    """A forward pass as the exact sum over all paths."""
    if plot is not None:
        from segre.report.drawing import require_static_format

        require_static_format(plot)
    from segre.collapse.commands import count_paths, decompose

    given = meant(model, defaults)
    if shares:
        out.emit(count_paths(given))
        return
    with out.waiting("adding up paths"):
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
    if plot is not None:
        from segre.report.collapse_plots import plot_paths

        plot_paths(found, plot)
    out.emit(found, files={"plot": plot})


COMMANDS = (
    (
        collapse,
        """Examples:
    segre collapse bert-base-uncased --plot bert.png
    segre collapse model-directory --text book.txt --variants paper
    segre collapse model-directory --variants what-if
    segre collapse bert-base-uncased --variants attention,attention:gapless,full:gate
    segre collapse softmax/d=16,16,16,16,16,16,16/a=8/heads=2/t=6 --certify

After a colon attention is changed: gapless (1/t subtracted from every weight), window=N, gate
(sigmoid(W_G x), W_G random). A model whose design does not allow a change is refused.""",
    ),
    (
        paths,
        """Examples:
    segre paths gpt2 --plot paths.png
    segre paths model-directory --sample 5 --of-length 2
    segre paths llama-3-8b --shares""",
    ),
)
