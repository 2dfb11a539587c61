"""Commands about depth: collapse, paths."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from segre.cli import completion
from segre.cli.options import AsJson, Memory, Quiet, Seed, memory_bytes, print_json
from segre.files import shown

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model directory; with random weights a config.json, a name such as "
        "bert-base-uncased, or a spec such as softmax/d=8,8,8,8/a=4/t=6.",
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
            help="all (8), paper (4, norms kept), or names such as full,attention.",
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
    plot: Plot = None,
    seed: Seed = 0,
    memory: Memory = "8G",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Do tokens become alike with depth, as it is and with parts removed?"""
    from segre.report.plots import require_static_format

    if plot is not None:
        require_static_format(plot)
    if _is_stack(model):
        _study(model, seed, inputs, certify, threshold, plot, as_json, quiet)
        return
    from segre.cli.progress import progress_bar
    from segre.collapse.curves import curves
    from segre.collapse.inputs import random_tokens, read_text
    from segre.collapse.models import load
    from segre.collapse.verdict import advice
    from segre.report.collapse import print_curves
    from segre.report.collapse_plots import plot_curves

    chosen = _variants(variants)
    loaded = load(model, seed, memory=memory_bytes(memory))
    if text is None:
        tokens = random_tokens(loaded, inputs, length, seed)
    else:
        tokens = read_text(loaded, text, inputs, length)
    with progress_bar(quiet or as_json) as progress:
        found = curves(loaded, tokens, chosen, ranks=ranks, past_floor=True, progress=progress)
    said = advice(found, threshold)
    if plot is not None:
        plot_curves(found, plot)
    if as_json:
        print_json({**found.document(), "advice": said, "plot": plot and shown(plot)})
        return
    print_curves(found, said)
    if plot is not None:
        typer.echo(f"plot: {plot}")


def _variants(text: str) -> Any:
    from segre.collapse.variants import ALL, PAPER, variant

    if text in ("all", "paper"):
        return ALL if text == "all" else PAPER
    return tuple(variant(name.strip()) for name in text.split(","))


def _is_stack(model: str) -> bool:
    """Whether it is a spec without a vocabulary, which is run on random tokens of its width."""
    kinds = ("softmax", "lightning", "transformer")
    return "=" in model and model.partition("/")[0] in kinds and "/vocab=" not in model


def _study(
    model: str,
    seed: int,
    inputs: int,
    certify: bool,
    threshold: float,
    plot: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    from math import log10

    from segre.cli.progress import waiting
    from segre.collapse.study import study, study_advice
    from segre.report.collapse import print_study
    from segre.report.collapse_plots import plot_study

    with waiting("measuring", quiet or as_json):
        found = study(model, seed, inputs, certify=certify)
    said = study_advice(found, log10(threshold) if threshold > 0 else -3.0)
    if plot is not None:
        plot_study(found, plot)
    if as_json:
        print_json({**found.document(), "advice": said, "plot": plot and shown(plot)})
        return
    print_study(found, said)
    if plot is not None:
        typer.echo(f"plot: {plot}")


def paths(
    model: Model,
    skip: Annotated[
        bool | None,
        typer.Option("--skip/--no-skip", help="With or without skips; as it is unless said."),
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
        int | None, typer.Option(help="Length of the paths drawn; 1 unless said.", min=0)
    ] = None,
    shares: Annotated[
        bool, typer.Option("--shares", help="Only numbers of paths: no weights needed.")
    ] = False,
    plot: Plot = None,
    seed: Seed = 0,
    memory: Memory = "8G",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """A forward pass as the exact sum over all paths."""
    from segre.report.plots import require_static_format

    if plot is not None:
        require_static_format(plot)
    if shares:
        _shares(model, as_json)
        return
    from segre.cli.progress import waiting
    from segre.collapse.paths import head_sums, path_sums
    from segre.collapse.study import random_pass
    from segre.collapse.variants import Variant
    from segre.report.collapse import print_paths
    from segre.report.collapse_plots import plot_paths

    with waiting("adding up paths", quiet or as_json):
        if _is_stack(model):
            name, done = random_pass(model, seed, skip=skip)
        else:
            variant = Variant(skip=skip is not False, mlp=mlp, norm=norms)
            name, done = _pass(model, variant, length, text, seed, memory_bytes(memory))
        sums, heads = path_sums(done), head_sums(done)
        drawn = _drawn(done, sample, of_length, seed)
    error = float(abs(sums.total - done.output).max() / abs(done.output).max())
    if plot is not None:
        plot_paths(name, sums, heads, plot)
    if as_json:
        print_json(
            {
                "model": name,
                "paths": sums.document(),
                "through": heads.document(),
                "identity": error,
                "sampled": drawn,
                "plot": plot and shown(plot),
            }
        )
        return
    print_paths(name, sums, heads, error, drawn)
    if plot is not None:
        typer.echo(f"plot: {plot}")


def _shares(model: str, as_json: bool) -> None:
    from segre.collapse.shares import shares_of
    from segre.report.collapse import print_shares

    found = shares_of(model)
    if as_json:
        print_json({"model": model, "shares": found})
    else:
        print_shares(model, found)


def _pass(
    model: str, variant: Any, length: int | None, text: Path | None, seed: int, memory: int
) -> tuple[str, Any]:
    """A recorded forward pass, and what to call it."""
    from segre.collapse.inputs import random_tokens, read_text
    from segre.collapse.models import load
    from segre.collapse.record import record

    loaded = load(model, seed, memory=memory)
    fits = length or min(32, loaded.longest or 32)
    if text is None:
        tokens = random_tokens(loaded, 1, fits, seed)
    else:
        tokens = read_text(loaded, text, 1, fits)
    done = record(loaded, tokens.batches[0][0], variant, memory=memory)
    return f"{loaded.name} ({variant.described})", done


def _drawn(done: Any, count: int, length: int | None, seed: int) -> list[dict[str, Any]]:
    from segre.collapse.paths import path_term, sample_paths
    from segre.collapse.residual import norm, relative_residual

    if not count:
        return []
    chosen = 1 if length is None and done.layers[0].skip else length
    chosen = len(done.layers) if chosen is None else chosen
    out = []
    for path in sample_paths(done, chosen, count, seed):
        term = path_term(done, path)
        size, relative = float(norm(term)), float(relative_residual(term))
        out.append({"path": list(path), "norm": size, "relative": relative})
    return out


COMMANDS = (
    (
        collapse,
        """Examples:
    segre collapse bert-base-uncased --plot bert.png
    segre collapse model-directory --text book.txt --variants paper
    segre collapse softmax/d=16,16,16,16,16,16,16/a=8/heads=2/t=6 --certify""",
    ),
    (
        paths,
        """Examples:
    segre paths gpt2 --plot paths.png
    segre paths model-directory --sample 5 --of-length 2
    segre paths llama-3-8b --shares""",
    ),
)
