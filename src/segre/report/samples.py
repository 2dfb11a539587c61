"""How many inputs determine a function, on the terminal and as a plot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from segre.geometry.samples import SampleCount
from segre.report.captions import BLUE, GREY, ORANGE
from segre.report.console import Lines, plain_console, print_lines
from segre.report.drawing import picture
from segre.report.text import printed

_COLOURS = {"proved": "green", "computed": "yellow", "bounded": "yellow"}
_WORDS = {
    "proved": "{}",
    "computed": "computed, not proved",
    "bounded": "bounds {}",
}


@printed.register
def print_samples(found: SampleCount) -> None:
    """The number of inputs, the naive count, why, and the rank after each number of inputs."""
    value = f"{found.value:,}" if found.value is not None else f"{found.lower:,}..{found.upper:,}"
    known = found.dimension
    size = known.value if known.value is not None else known.lower
    lines: Lines = [
        ("samples", value, Text(_said(found), style=_COLOURS[found.status])),
        ("naive count", f"{found.naive:,}", f"{size:,} dimensions / {found.outputs:,} outputs"),
        ("enough", "", found.enough),
        ("fewer", "", found.fewer),
    ]
    console = plain_console()
    console.print(Text(str(found.spec), style="bold cyan"), soft_wrap=True)
    print_lines(console, lines)
    if not found.ranks:
        return
    console.print()
    console.print(Text(f"{'inputs':>6}  {'rank':>6}  {'new':>6}", style="bold"), soft_wrap=True)
    for inputs, rank, gain in _shortened(found):
        console.print(f"{inputs:>6}  {rank:>6}  {gain:>6}", soft_wrap=True)


def _said(found: SampleCount) -> str:
    """How the number is known: it counts the inputs that the dimension needs."""
    known = _WORDS[found.status].format(found.dimension.proof())
    return f"generic inputs determine the function up to finitely many; {known}"


def _shortened(found: SampleCount) -> Iterator[tuple[str, str, str]]:
    """The table; of consecutive inputs that add the same rank, only the first and the last."""
    gains = found.gains
    skipped = False
    for n, (rank, gain) in enumerate(zip(found.ranks, gains, strict=True)):
        inner = 0 < n < len(gains) - 1 and gains[n - 1] == gain == gains[n + 1]
        if inner and not skipped:
            yield "...", "...", f"+{gain}"
        elif not inner:
            yield str(n + 1), str(rank), f"+{gain}"
        skipped = inner


def plot_samples(found: SampleCount, path: Path) -> None:
    """The rank against the number of inputs, with the naive count for comparison."""
    target = found.ranks[-1]
    inputs = list(range(len(found.ranks) + 2))
    ranks = [0, *found.ranks, target]
    counted = [min(n * found.outputs, target) for n in inputs]
    dots = 5 if len(inputs) <= 60 else 0
    with picture(path, 7.5, 4.4) as figure:
        ax = figure.subplots()
        label = f"dimension {target}" if found.dimension.value else f"largest rank found, {target}"
        ax.axhline(target, color=GREY, linewidth=1, linestyle=":", label=label)
        ax.plot(inputs, counted, "--", color=ORANGE, label=f"output numbers: {found.naive} inputs")
        label = f"rank: {found.value} inputs ({found.status})"
        ax.plot(inputs, ranks, "-o", color=BLUE, markersize=dots, label=label)
        ax.axvline(len(found.ranks), color=BLUE, linewidth=0.8, alpha=0.5)
        ax.set_xlabel("generic inputs")
        ax.set_ylabel("rank of the Jacobian")
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        ax.locator_params(axis="x", integer=True)
        ax.set_title(str(found.spec)[:80], fontsize=10)
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(facecolor="white", framealpha=1, edgecolor="none", loc="lower right")
