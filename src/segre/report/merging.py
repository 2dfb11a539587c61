"""Merged checkpoints, and losses between checkpoints: on the terminal and as a plot."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from segre.checkpoint.barrier import Barriers
from segre.checkpoint.merge import Merged
from segre.files import shown
from segre.report.captions import GREY
from segre.report.console import plain_console
from segre.report.diff import FAR_APART
from segre.report.drawing import picture
from segre.report.text import printed

_FEW = 5  # columns of losses
_MARKERS = "os^Dvx"


@printed.register
def print_merged(merged: Merged) -> None:
    """Where the checkpoint is, how it was merged, and how close its sources were."""
    console = plain_console()
    console.print(f"{merged.directory}: {merged.formula}", soft_wrap=True)
    for one in merged.aligned:
        before, after = one.whole.distances()
        near = f"relative distance {before:.3g}"
        if one.moved:
            near = f"relative distance {before:.3g} before alignment, {after:.3g} after"
        console.print(f"{shown(one.name)} to {shown(one.to)}: {near}", soft_wrap=True)
        if min(before, after) > FAR_APART and not merged.by.startswith("none"):
            console.print(
                f"{shown(one.name)} is far from {shown(one.to)}, and may be unrelated: measure the "
                "result with segre weights barrier before you use it"
            )
    if all(one.moved for one in merged.aligned):
        console.print(f"aligned by {merged.by}", soft_wrap=True)
    elif merged.by.startswith("none"):
        console.print("merged without alignment")
    else:
        still = ", ".join(shown(one.name) for one in merged.aligned if not one.moved)
        console.print(f"not moved: {still}; alignment would increase the distance", soft_wrap=True)


@printed.register
def print_barriers(found: Barriers) -> None:
    """Losses along every line, and the barriers."""
    console = plain_console()
    table = Table(box=None, pad_edge=False)
    table.add_column(f"from {shown(found.name)} to", no_wrap=True)
    shares = found.lines[0].shares
    last, parts = len(shares) - 1, _FEW - 1
    places = sorted({(2 * last * i + parts) // (2 * parts) for i in range(parts + 1)})
    for place in places:
        table.add_column(f"{shares[place]:.2g}", justify="right")
    table.add_column("barrier", justify="right")
    for line in found.lines:
        losses = [f"{line.losses[place]:.3f}" for place in places]
        table.add_row(shown(line.name), *losses, f"{line.barrier:.3f}")
    console.print(table)
    console.print(f"measured: {found.how}", soft_wrap=True)


def plot_barriers(found: Barriers, path: Path) -> None:
    """Losses against the weight of the other checkpoint, one curve for each."""
    with picture(path, 6.4, 4.4) as figure:
        axes = figure.subplots()
        for number, line in enumerate(found.lines):
            label = f"{shown(line.name)}: barrier {line.barrier:.2f}"
            marker, style = _MARKERS[number % len(_MARKERS)], "-" if number == 0 else "--"
            width = max(1.0, 3.0 - 0.7 * number)  # lines that coincide are all seen
            axes.plot(
                line.shares, line.losses, marker, linestyle=style, linewidth=width, label=label
            )
        axes.set_xlabel(f"from {shown(found.name)} (0) to the other checkpoint (1)")
        axes.set_ylabel("next-token loss (nats)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
        axes.legend(frameon=False, fontsize=9)
        axes.set_title("Loss along the straight line, measured", fontsize=11)
        figure.supxlabel(f"On {found.on}.", fontsize=8.5, color=GREY)
