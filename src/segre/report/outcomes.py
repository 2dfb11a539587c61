"""Outcomes of experiments as text: tables, then every claim with its status."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as Grid

from segre.report.console import plain_console
from segre.report.text import printed
from segre.reproduce.claim import Claim
from segre.reproduce.experiment import Cell, Outcome, Table

UNKNOWN = "-"


@printed.register
def print_outcome(found: Outcome) -> None:
    """The work, the question, tables, claims, notes."""
    console = plain_console()
    console.print(f"{found.question} {found.work}.")
    if found.seeds:
        several = "seeds" if len(found.seeds) > 1 else "seed"
        console.print(f"{several.capitalize()}: {', '.join(map(str, found.seeds))}.")
    for table in found.found.tables:
        console.print()
        print_table(console, table)
    console.print()
    print_claims(console, found.claims)
    console.print()
    console.print(f"{in_words(found)}.")
    for note in found.found.notes:
        console.print(note)


def print_table(console: Console, table: Table) -> None:
    """A table under its title."""
    console.print(f"{table.title}:")
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column, left in zip(table.columns, text_columns(table), strict=True):
        grid.add_column(column, justify="left" if left else "right", overflow="fold")
    for row in table.rows:
        grid.add_row(*cells(table, row))
    console.print(grid)
    if table.note:
        console.print(table.note)


def print_claims(console: Console, claims: Sequence[Claim]) -> None:
    """Each claim with what is expected, what was measured, and its status."""
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("status", "claim (source)", "measured", "expected"):
        grid.add_column(heading, no_wrap=heading == "status", overflow="fold")
    for claim in claims:
        said = f"{claim.says} ({claim.source})"
        grid.add_row(claim.status, said, measured(claim), expected(claim))
    console.print(grid)
    for claim in claims:
        if claim.why:
            console.print(f"{claim.status.capitalize()}: {lower(claim.says)}: {claim.why}.")


def in_words(found: Outcome) -> str:
    """How many claims there are of each status."""
    counts = [f"{count} {status}" for status, count in found.counts().items() if count]
    return f"Claims: {', '.join(counts)}"


def expected(claim: Claim) -> str:
    """What is expected, in a few characters."""
    if claim.relation == "none" or claim.expected is None:
        return UNKNOWN if claim.relation == "none" else "yes"
    value = number(claim.expected)
    if claim.relation == "=":
        return f"{value} ± {number(claim.tolerance)}" if claim.tolerance else value
    return f"{'at most' if claim.relation == '<=' else 'at least'} {value}"


def measured(claim: Claim) -> str:
    """What was measured: the mean and the deviation over seeds."""
    if claim.mean is None:
        return UNKNOWN
    if claim.relation == "true":
        right, count = sum(map(bool, claim.measured)), len(claim.measured)
        if right == count:
            return "yes"
        return f"{right} of {count}" if count > 1 else "no"
    spread = f" ± {claim.spread:.1g}" if len(claim.measured) > 1 else ""
    return number(claim.mean) + spread


def number(value: float) -> str:
    """A number in a few characters.

    >>> number(0.2583), number(3.0), number(1.2e-9), number(1057.4973)
    ('0.2583', '3', '1.2e-09', '1057')
    """
    return f"{value:.4g}"


def lower(text: str) -> str:
    """The text with a small first letter, for use within a sentence; names in capitals stay."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def cells(table: Table, row: Sequence[Cell]) -> list[str]:
    """A row as text."""
    formats = table.formats or ("",) * len(row)
    return [_cell(value, form) for value, form in zip(row, formats, strict=True)]


def _cell(value: Cell, form: str) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return (
        format(value, form) if form else number(value) if isinstance(value, float) else str(value)
    )


def text_columns(table: Table) -> list[bool]:
    """Which columns are text."""
    return [
        any(isinstance(row[place], str) for row in table.rows) and not form
        for place, form in enumerate(table.formats or ("",) * len(table.columns))
    ]
