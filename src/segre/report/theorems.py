"""The theorems against exact ranks."""

from __future__ import annotations

from collections.abc import Iterator

from segre.report.blocks import Block, Say, Title, table
from segre.report.views import view
from segre.reproduce.theorems import Comparison


@view.register
def of_comparison(found: Comparison) -> Iterator[Block]:
    """A line for each theorem, where its hypotheses hold and where they do not."""
    yield Title("The theorems against exact ranks", terminal=False)
    counts = [(name, name, ",") for name in ("architectures", "equal", "undecided", "different")]
    for within, title in ((True, "Hypotheses hold"), (False, "A hypothesis fails")):
        rows = [row for row in found.rows if row.within == within]
        if rows:
            yield Say(f"{title}: the theorem's dimension compared with the exact rank.")
            yield table(title, "", rows, "theorem", *counts)
    said = "Undecided: the theorem's dimension lies between two proved bounds that do not meet."
    yield Say(said)
    yield Say(f"Mismatches where the hypotheses hold: {found.mismatches}.")
