"""How many inputs determine a function, as a table."""

from __future__ import annotations

from segre.geometry.samples import SampleCount
from segre.report.cards import tabled
from segre.report.page.blocks import Table


@tabled.register
def table_of_samples(found: SampleCount) -> Table:
    """A row for each number of inputs: the rank, the gain in rank, and the output numbers."""
    rows = [
        (n, rank, gain, n * found.outputs)
        for n, (rank, gain) in enumerate(zip(found.ranks, found.gains, strict=True), 1)
    ]
    return Table("ranks", "Ranks", ("inputs", "rank", "new", "outputs"), tuple(rows))
