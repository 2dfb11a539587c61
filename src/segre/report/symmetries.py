"""The symmetries of a stack on the terminal, and what training conserves."""

from __future__ import annotations

from rich.text import Text

from segre.geometry.symmetry_table import SymmetryTable
from segre.report.console import plain_console
from segre.report.explanation import print_choices
from segre.report.text import printed


@printed.register
def print_symmetries(table: SymmetryTable) -> None:
    """Every symmetry, its dimension, and what gradient flow conserves because of it."""
    console = plain_console()
    console.print(Text(str(table.spec), style="bold cyan"), soft_wrap=True)
    for row in table.rows:
        console.print(f"{row.dimension:>5}  {row.name}, {row.where}", soft_wrap=True)
        if row.formula is not None:
            console.print(
                f"       conserved: {row.formula} ({_counted(row.count)})", soft_wrap=True
            )
        else:
            console.print(f"       no conserved quantity: {row.reason}", soft_wrap=True)
    console.print(
        f"{table.dimension:>5}  dimensions of symmetry in all, of {table.spec.parameters} "
        "parameters"
    )
    console.print(f"{table.independent:>5}  independent quantities conserved by gradient flow")
    print_choices(console, table.choices)
    for note in table.notes:
        console.print(f"\n{note[0].upper()}{note[1:]}.")


def _counted(numbers: int) -> str:
    return "one quantity" if numbers == 1 else f"{numbers} quantities"
