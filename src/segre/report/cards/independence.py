"""Components of conditional-independence varieties, as a table."""

from __future__ import annotations

from segre.report.cards import tabled
from segre.report.page.blocks import Table
from segre.variety.ci import Decomposition, said


@tabled.register
def table_of_components(found: Decomposition) -> Table:
    """A line for each kind of component."""
    rows = [(kind.count, kind.dimension, said(found.grid, kind.example)) for kind in found.kinds]
    return Table("components", "Components", ("count", "dimension", "points"), tuple(rows))
