"""The second paper's experiments as text: tables beside what is published, and plain verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from segre.collapse.curves import FLOOR
from segre.collapse.variants import PAPER
from segre.report.console import plain_console
from segre.report.text import printed
from segre.reproduce.circle import MERGED, Walks
from segre.reproduce.path_effectiveness import Effectiveness, verdict
from segre.reproduce.path_lengths import PathLengths
from segre.reproduce.rank_collapse import NAMES, RankCollapse
from segre.reproduce.rank_collapse import verdict as collapse_verdict

_UNKNOWN = "-"


@printed.register
def print_effectiveness(found: Effectiveness) -> None:
    """A trained network, and the accuracies of its paths by length."""
    plan, published, console = found.plan, found.plan.published, plain_console()
    kind = "AdamW" if plan.decay else "Adam"
    mlp = "MLPs" if plan.mlp else "no MLPs"
    console.print(
        f"Task: {plan.title}. Network: {plan.layers} layers of {plan.heads} heads, width {plan.d}, "
        f"skips, {mlp}, {found.parameters:,} weights."
    )
    rest = f", {found.resumed} of them done before" if found.resumed else ""
    console.print(
        f"Training: {kind} {plan.lr:g}, {plan.epochs} epochs of {plan.train:,} sequences{rest}; "
        f"{found.seconds:.0f} s, seed {found.seed}. Published: {published.training}."
    )
    console.print()
    table = _table("", "here", "published")
    rerun = "" if published.rerun is None else f" (that code, run again: {published.rerun})"
    table.add_row("accuracy", f"{found.accuracy:.3f}", f"{published.full}{rerun}")
    table.add_row("on what was learned from", f"{found.train_accuracy:.3f}", _UNKNOWN)
    table.add_row("most frequent label", f"{found.majority:.3f}", f"{published.chance}")
    if found.ceiling < 1:
        table.add_row("most that is possible", f"{found.ceiling:.3f}", _UNKNOWN)
    console.print(table)
    console.print()
    table = _table("length", "paths", "exact", "up to k", "isolated", "published code")
    for row in found.rows:
        table.add_row(
            str(row.length),
            f"{row.paths:,}",
            f"{row.exact:.2f}",
            f"{row.up_to:.2f}",
            f"{row.isolated:.2f} ± {row.isolated_spread:.2f}",
            _UNKNOWN if row.published is None else f"{row.published:.2f}",
        )
    console.print(table)
    linear = ", MLPs being fixed to what they did in the network" if plan.mlp else ""
    console.print(
        f"exact: the sum of all paths of a length, as terms of the network{linear}. up to k: all "
        f"paths of length at most k, with the biases of the layers. isolated: the sum of "
        f"{found.drawn} paths drawn at random, each run as a network of its own with one head in a "
        f"layer, {found.repeats} times (mean ± deviation), as in the published code; the last "
        "column is that code, run again. The readout has a norm and biases, which all sums go "
        f"through. {found.tested:,} tokens are tested."
    )
    for note in plan.notes:
        console.print(note)
    console.print(
        "Unlike the published networks these have no norms between layers and no dropout: with "
        "norms a path would not be a term of a sum."
    )
    _print_verdict(console, *verdict(found))


@printed.register
def print_walks(found: Walks) -> None:
    """Whether the tokens of each variant merged."""
    console = plain_console()
    console.print(
        "Two tokens on a circle of radius 0.3, moved by one trained layer again and again."
    )
    table = _table("layer", "error", "steps", "last distance", "merged")
    for walk in found.walks:
        table.add_row(
            walk.name,
            f"{walk.loss**0.5:.1e}",
            str(len(walk.tokens) - 1),
            f"{walk.distances[-1]:.2g}",
            _UNKNOWN if walk.merged is None else f"from {walk.merged}",
        )
    console.print(table)
    console.print(
        "error: of a step, the root of the mean square in training. Distances are over the first "
        f"one; merged: they stay below {MERGED:g}. There are no "
        "published numbers. The order of the variants depends on the seed and on training (after "
        "--epochs 40 most stay apart): this is shown, not claimed."
    )


@printed.register
def print_path_lengths(found: PathLengths) -> None:
    """Shares of the longest paths, beside the published ones."""
    console, rows = plain_console(), found.rows
    console.print("Shares of paths by length: L is the number of layers; a path may skip layers.")
    table = _table("model", "L", "heads", "paths", "P(L)", "published", "P(L-1)", "published")
    for row in rows:
        table.add_row(
            row.model,
            str(row.layers),
            str(row.heads),
            f"{float(row.paths):.1e}",
            f"{row.shares[-1]:.4f}",
            f"{row.published[0]:.4f}",
            f"{row.shares[-2]:.4f}",
            f"{row.published[1]:.4f}",
        )
    console.print(table)
    agree = sum(row.agrees for row in rows)
    console.print(f"{agree} of {len(rows)} equal the published shares to all four digits.")


@printed.register
def print_rank_collapse(several: RankCollapse) -> None:
    """Mean relative residuals by layer, beside what is published."""
    console, found = plain_console(), several.models
    inputs = found[0].curves.inputs
    console.print(
        f"Mean relative residual after each layer: random weights, {inputs['count']} inputs of "
        f"{inputs['length']} {inputs['kind']}, seed {inputs['seed']}."
    )
    for one in found:
        console.print()
        model = one.curves.model
        console.print(
            f"{one.model}: {model['layers']} layers of {model['heads']} heads, "
            f"width {model['width']}"
        )
        table = _table("variant", "", *(str(layer) for layer in one.layers()), left=2)
        table.padding = (0, 1, 0, 0)
        for variant in PAPER:
            figure, run = one.known(variant)
            table.add_row(NAMES[variant], "here", *map(_residual, one.mean(variant)))
            if one.published:
                table.add_row("", "paper", *map(_residual, figure))
            if any(value is not None for value in run):
                table.add_row("", "run", *map(_residual, run))
        console.print(table)
    console.print()
    console.print(
        "paper: read off its figures, on 32 texts. run: measured before on random tokens. fl: at "
        f"most {FLOOR:.1e}, rounding of single precision."
    )
    _print_verdict(console, *collapse_verdict(found))


def _residual(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    if value <= FLOOR:
        return "fl"
    return f"{value:.3f}" if value >= 0.01 else f"{value:.1e}".replace("e-0", "e-")


def _print_verdict(console: Console, yes: Sequence[str], no: Sequence[str]) -> None:
    console.print()
    for name, sentences in (("Reproduces", yes), ("Does not reproduce", no)):
        for sentence in sentences:
            console.print(f"{name}: {sentence}")
    if not no:
        console.print("Does not reproduce: nothing of what was compared.")


def _table(*headings: str, left: int = 1) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < left else "right")
    return table
