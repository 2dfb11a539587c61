"""Two models side by side, in a notebook and as a table."""

from __future__ import annotations

from collections.abc import Sequence

from segre.analysis.side_by_side import SideBySide
from segre.report.cards import carded, tabled
from segre.report.cards.card import Card
from segre.report.comparison import letter
from segre.report.page.blocks import Items, Table
from segre.report.side_by_side import Row, depth_rows, findings_of, measure_rows, size_rows


def table_of_rows(key: str, title: str, rows: Sequence[Row], note: str = "") -> Table:
    """A row for each quantity, a column for each model."""
    numbers = (False, True, True)
    return Table(key, title, ("", letter(0), letter(1)), tuple(rows), numbers, note=note)


@tabled.register
def table_of_side_by_side(found: SideBySide) -> Table:
    """Every quantity that both models have."""
    rows = [*size_rows(found), *depth_rows(found), *measure_rows(found)]
    return Table("side-by-side", "Side by side", ("what", letter(0), letter(1)), tuple(rows))


@carded.register
def card_of_side_by_side(found: SideBySide) -> Card:
    """The table, and the findings of each model."""
    items = tuple(
        Items(f"{letter(number)}: {each.target.name}", tuple(findings_of(each)))
        for number, each in enumerate(found.both)
        if findings_of(each)
    )
    return Card(
        title="Side by side",
        lead="; ".join(f"{letter(n)}: {each.target.shown}" for n, each in enumerate(found.both)),
        tiles=(),
        blocks=(table_of_side_by_side(found), *items),
    )
