"""The first paper's numerical experiment on the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from segre.report.console import plain_console
from segre.report.text import printed
from segre.reproduce.normalized_dimension import Rows


@printed.register
def print_normalized_dimension(found: Rows) -> None:
    """The table of the paper's numerical experiment."""
    console, rows = plain_console(), found.rows
    console.print("Dimension of two attention layers, t = 3, a = 2; every column is computed.")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("kind")
    for heading in ("d", "parameters", "conjectured", "certified", "float64", "gap", "float32"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row.kind,
            str(row.d),
            str(row.parameters),
            str(row.conjectured),
            str(row.certified) if row.status == "proved" else f">={row.certified}",
            _against(row.float64, row.certified),
            f"{row.float64_gap:.0e}",
            _against(row.float32, row.certified),
        )
    console.print(table)
    proved = sum(row.status == "proved" for row in rows)
    agree = sum(row.certified == row.conjectured for row in rows if row.status == "proved")
    console.print(f"{proved} of {len(rows)} proved; {agree} of them equal the conjecture.")
    console.print("float64, float32: ranks of floating-point Jacobians, which are estimates.")


def _against(estimate: int, certified: int) -> Text:
    return Text(str(estimate), style="" if estimate == certified else "bold red")
