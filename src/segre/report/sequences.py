"""The cost of networks on long sequences, on the terminal and as a plot."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from segre.report.console import plain_console
from segre.report.drawing import picture
from segre.report.text import printed, say
from segre.sequence.cost import Costs

_INKS = ("#1f5fa8", "#c26a12", "#2f8f4e", "#7a4fb5", "#b3202c", "#5b6770")


def short(count: int | None) -> str:
    """A count with three digits and k, M, G, T, P or E for powers of 1000.

    >>> short(950), short(4096), short(12_345_678), short(None)
    ('950', '4.1 k', '12.3 M', '-')
    """
    if count is None:
        return "-"
    value, names = float(count), iter(("", " k", " M", " G", " T", " P", " E"))
    name = next(names)
    while value >= 999.5:
        value, name = value / 1000, next(names, "?")
    return f"{value:.1f}{name}" if name else str(count)


@printed.register
def print_costs(found: Costs) -> None:
    """A line for each number of tokens and kind of heads."""
    table = Table(box=None, pad_edge=False)
    table.add_column("tokens", justify="right", no_wrap=True)
    for title in ("layers", "heads"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in ("mechanism", "method"):
        table.add_column(title, no_wrap=True)
    for title in ("mixing", "if dense", "maps", "bytes", "state", "faster from"):
        table.add_column(title, justify="right", no_wrap=True)
    for line in found.lines:
        table.add_row(
            f"{line.tokens:,}",
            str(line.layers),
            str(line.heads),
            line.mechanism,
            line.method,
            short(line.operations),
            short(line.dense),
            short(line.maps),
            short(line.bytes),
            short(line.state),
            "-" if line.crossover is None else f"{line.crossover:,}",
        )
    plain_console().print(table)
    for tokens in found.tokens:
        state = found.state(tokens)
        kept = (
            "outputs depend on later tokens"
            if state is None
            else f"{short(state)} numbers of state"
        )
        say(f"{tokens:,} tokens: {short(found.total(tokens))} operations in total, {kept}")


def plot_costs(found: Costs, path: Path) -> None:
    """Operations of mixing against the number of tokens, compared with dense attention."""
    with picture(path, 8, 4.6) as figure:
        ax = figure.subplots()
        kinds = list(dict.fromkeys((line.mechanism, line.heads) for line in found.lines))
        for number, kind in enumerate(kinds):
            own = [line for line in found.lines if (line.mechanism, line.heads) == kind]
            own.sort(key=lambda line: line.tokens)
            tokens = [line.tokens for line in own]
            ink = _INKS[number % len(_INKS)]
            ax.plot(tokens, [line.operations for line in own], "o-", color=ink, label=kind[0])
            ax.plot(tokens, [line.dense for line in own], ":", color=ink)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xlabel("tokens")
        ax.set_ylabel("operations of mixing (dotted: if dense)")
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
