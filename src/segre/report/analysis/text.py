"""An analysis on the terminal: a line or two for every part, and where the report is."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from segre.analysis.part import Part
from segre.analysis.run import Analysis
from segre.report.console import plain_console
from segre.report.text import printed

_COLOURS = {
    "proved by computation": "bold green",
    "proved by theorem": "bold cyan",
    "exact": "bold blue",
    "certain": "bold cyan",
    "likely": "bold yellow",
    "bounded": "bold yellow",
    "measured": "magenta",
    "estimated": "yellow",
    "not run": "dim",
}


@printed.register
def print_analysis(found: Analysis) -> None:
    """The answers in short; the report has the rest."""
    console = plain_console()
    target = found.target
    console.print(Text(target.name, style="bold cyan"), soft_wrap=True)
    if str(target.spec) != target.name:
        console.print(Text(str(target.spec), style="dim"), soft_wrap=True)
    console.print()
    console.print(_table(found.parts))
    console.print()


@printed.register
def print_part(part: Part) -> None:
    """One of the answers, and how it is known."""
    console = plain_console()
    console.print(_table((part,)))
    for words in (part.how, part.command):
        if words:
            console.print(words, style="dim")


def _table(parts: Iterable[Part]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True, max_width=22)
    table.add_column(no_wrap=True)
    table.add_column()
    for part in parts:
        more = [part.takeaways[key] for key in _added(part) if key in part.takeaways]
        said = "\n".join([" ".join([part.lead or part.reason, *more]), *_findings(part)])
        style = "" if part.lead else "dim"
        table.add_row(
            _TITLES.get(part.key, part.title),
            Text(part.label, _COLOURS[part.label]),
            Text(said, style),
        )
    return table


def _added(part: Part) -> tuple[str, ...]:
    """The plots whose sentences say more than the answer does; the others repeat it."""
    if part.key == "depth" and (part.data or {}).get("kind") == "model":
        return "depth", "what-if"
    return ("conditions",) if part.key == "weights" else ()


def _findings(part: Part) -> list[str]:
    """What stands out, where that is the question."""
    found = (part.data or {}).get("findings", ())
    return [f"{number}. {one['what']}" for number, one in enumerate(found, 1)]


_TITLES = {
    "findings": "Findings",
    "redundancy": "Redundancy",
    "weights": "Weights",
    "depth": "Depth",
    "dimension": "Dimension",
}
