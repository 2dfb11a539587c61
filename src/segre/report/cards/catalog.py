"""The supported models, as a table."""

from __future__ import annotations

from segre.discovery import QUESTIONS, Catalog
from segre.report.cards import tabled
from segre.report.page.blocks import Table

COLUMNS = ("kind", "name", "family", "parameters", "redundant", "percent", "dimension", *QUESTIONS)


@tabled.register
def table_of_catalog(found: Catalog) -> Table:
    """A row for each family and preset; each question is true or false."""
    rows = [tuple(entry.row().values()) for entry in found.entries]
    return Table("models", "Models", COLUMNS, tuple(rows))
