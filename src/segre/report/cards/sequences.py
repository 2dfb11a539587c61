"""What networks cost on long sequences, as a table."""

from __future__ import annotations

from dataclasses import astuple, fields

from segre.report.cards import tabled
from segre.report.page.blocks import Table
from segre.sequence.cost import CostLine, Costs


@tabled.register
def table_of_costs(found: Costs) -> Table:
    """A line for each number of tokens and kind of heads."""
    columns = tuple(field.name for field in fields(CostLine))
    return Table("costs", "Costs", columns, tuple(astuple(line) for line in found.lines))
