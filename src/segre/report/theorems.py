"""The theorems against exact ranks, on the terminal."""

from __future__ import annotations

from rich.table import Table

from segre.report.console import plain_console
from segre.report.text import printed
from segre.reproduce.theorems import Comparison


@printed.register
def print_comparison(found: Comparison) -> None:
    """A line for each theorem, where its hypotheses hold and where they do not."""
    console = plain_console()
    for within, title in ((True, "Hypotheses hold"), (False, "A hypothesis fails")):
        rows = [row for row in found.rows if row.within == within]
        if not rows:
            continue
        console.print(f"{title}: the theorem's dimension compared with the exact rank.")
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("theorem")
        for heading in ("architectures", "equal", "undecided", "different"):
            table.add_column(heading, justify="right")
        for row in rows:
            numbers = (row.architectures, row.equal, row.undecided, row.different)
            table.add_row(row.theorem, *map("{:,}".format, numbers))
        console.print(table)
    console.print(
        "Undecided: the theorem's dimension lies between two proved bounds that do not meet."
    )
    console.print(f"Mismatches where the hypotheses hold: {found.mismatches}.")
