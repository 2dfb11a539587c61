"""The symmetries of a stack, and what training conserves."""

from __future__ import annotations

from collections.abc import Iterator

from segre.geometry.symmetry_table import SymmetryTable
from segre.report.blocks import Block, Facts, Say, Table, Tile, Title, elsewhere, terminal
from segre.report.explanation import choices_of
from segre.report.views import tabled, view


@view.register
def of_symmetries(table: SymmetryTable) -> Iterator[Block]:
    """Every symmetry, its dimension, and what gradient flow conserves because of it."""
    yield Title(str(table.spec))
    yield terminal(*_lines(table))
    words = f"dimensions of symmetry in all, of {table.spec.parameters} parameters"
    quantities = "independent quantities conserved by gradient flow"
    yield elsewhere(
        Facts(
            (
                Tile("symmetries", f"{table.dimension:,}", table.status, words),
                Tile("conserved", f"at least {table.independent:,}", "bounded", quantities),
            )
        ),
        table_of_symmetries(table),
    )
    yield from choices_of(table.choices)
    for note in table.notes:
        yield Say()
        yield Say(f"{note[0].upper()}{note[1:]}.")


def _lines(table: SymmetryTable) -> Iterator[Block]:
    for row in table.rows:
        yield Say(f"{row.dimension:>5}  {row.name}, {row.where}", wrap=False)
        said = f"no conserved quantity: {row.reason}"
        if row.formula is not None:
            count = "one quantity" if row.count == 1 else f"{row.count} quantities"
            said = f"conserved: {row.formula} ({count})"
        yield Say(f"       {said}", wrap=False)
    words = f"dimensions of symmetry in all, of {table.spec.parameters} parameters"
    yield Say(f"{table.dimension:>5}  {words}")
    yield Say(f"{table.independent:>5}  independent quantities conserved by gradient flow")


@tabled.register
def table_of_symmetries(table: SymmetryTable) -> Table:
    """A row for every symmetry."""
    names = ("symmetry", "where", "group", "dimensions", "conserved", "numbers")
    rows = tuple(
        (one.name, one.where, one.group, one.dimension, one.formula, one.count)
        for one in table.rows
    )
    return Table("symmetries", "Symmetries", names, rows)
