"""An analysis on the terminal: a line or two for every part, and where the report is."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from segre.analysis.run import Analysis
from segre.report.console import plain_console

_COLOURS = {
    "proved": "bold green",
    "exact": "bold blue",
    "bounded": "bold yellow",
    "measured": "magenta",
    "estimated": "yellow",
    "not run": "dim",
}


def print_analysis(found: Analysis, report: Path | None) -> None:
    """The answers in short; the report has the rest."""
    console = plain_console()
    target = found.target
    console.print(Text(target.name, style="bold cyan"), soft_wrap=True)
    if str(target.spec) != target.name:
        console.print(Text(str(target.spec), style="dim"), soft_wrap=True)
    console.print()
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True, max_width=22)
    table.add_column(no_wrap=True)
    table.add_column()
    for part in found.parts:
        said = part.lead or part.reason
        style = "" if part.lead else "dim"
        table.add_row(
            _TITLES.get(part.key, part.title),
            Text(part.status, _COLOURS[part.status]),
            Text(said, style),
        )
    console.print(table)
    console.print()
    if report is not None:
        size = report.stat().st_size / 1e6
        console.print(
            f"report: {report} ({size:.1f} MB, one file; open it in a browser)", soft_wrap=True
        )
    for part in found.failed:
        console.print(f"{part.title} failed: {part.reason}", style="bold red")


_TITLES = {
    "redundancy": "Redundancy",
    "weights": "Strata",
    "depth": "Depth",
    "dimension": "Dimension",
}
