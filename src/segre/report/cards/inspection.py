"""The findings of `segre diagnose`, in a notebook and as a table."""

from __future__ import annotations

from segre.inspect.diagnose import Diagnosis
from segre.inspect.trace import WAYS, Trace
from segre.report.cards import carded, tabled
from segre.report.cards.card import Card
from segre.report.inspection import LENGTHS, beside, head_of, terms_in_words, trace_head
from segre.report.page.blocks import Cell, Items, Table, Tile


@tabled.register
def table_of_diagnosis(found: Diagnosis) -> Table:
    """One row for each finding."""
    rows = tuple(
        (one.measure, one.what, one.size, one.typical, one.control, one.depth, one.layer)
        for one in found.findings
    )
    columns = ("measure", "finding", "size", "median", "random", "depth", "layer")
    numeric = (False, False, True, True, True, True, True)
    return Table("findings", "What stands out", columns, rows, numeric)


@carded.register
def card_of_diagnosis(found: Diagnosis) -> Card:
    """The findings."""
    items = tuple(f"{one.what} {one.means}{beside(one)}" for one in found.findings)
    return Card(
        title="What stands out",
        lead=f"{head_of(found)}.",
        tiles=(Tile("findings", str(len(found.findings)), "measured", "on one input"),),
        blocks=(Items("", items or ("Nothing stands out.",)),),
    )


@tabled.register
def table_of_trace(found: Trace) -> Table:
    """One row for each token."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            token,
            found.words[token] if found.words else "",
            *(float(found.scores[name][token]) for name in WAYS),
            *(float(term) for term in found.lengths[:, token]),
        )
        for token in range(len(found.ids))
    )
    columns = ("token", "text", *WAYS, *LENGTHS)
    numeric = tuple(name != "text" for name in columns)
    return Table("trace", "Contributions of tokens", columns, rows, numeric)


@carded.register
def card_of_trace(found: Trace) -> Card:
    """The table of tokens."""
    return Card(
        title="Which tokens this output comes from",
        lead=f"{trace_head(found)}. {terms_in_words(found)}.",
        tiles=(),
        blocks=(table_of_trace(found),),
    )
