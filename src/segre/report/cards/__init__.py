"""An answer in a notebook: a card of HTML, or a table of pandas, by the type of the answer.

Cards are made of the same blocks as reports. The module with the cards of a type is imported when
such an answer is shown, as in `report/text.py`. An answer without a card is shown as text.
"""

from __future__ import annotations

from functools import singledispatch
from importlib import import_module
from typing import Any

from segre.libraries import library
from segre.report.cards.card import Card
from segre.report.cards.render import render, render_text
from segre.report.page.blocks import Table
from segre.report.text import text_of

# The module of an answer's type, and the module here that shows it.
HOMES = {
    "segre.discovery": "catalog",
    "segre.finding": "dimensions",
    "segre.geometry.explain": "dimensions",
    "segre.geometry.samples": "samples",
    "segre.variety.ci": "independence",
    "segre.sequence.cost": "sequences",
    "segre.collapse.commands": "collapse",
    "segre.referee.verdict": "proofs",
    "segre.analysis.run": "analysis",
    "segre.analysis.comparison": "comparison",
    "segre.analysis.side_by_side": "side_by_side",
    "segre.analysis.diff": "diff",
    "segre.inspect.diagnose": "inspection",
    "segre.inspect.trace": "inspection",
    "segre.analysis.part": "analysis",
    "segre.checkpoint.commands": "checkpoints",
    "segre.checkpoint.info": "checkpoints",
    "segre.checkpoint.comparison": "checkpoints",
    "segre.checkpoint.lineage": "lineage",
    "segre.checkpoint.content_hash": "lineage",
    "segre.sweep.status": "sweeps",
    "segre.sweep.run": "sweeps",
    "segre.sweep.fit": "sweeps",
}


@singledispatch
def carded(_answer: object) -> Card | None:
    """The card of an answer; modules register theirs here."""
    return None


@singledispatch
def tabled(answer: object) -> Table:
    """The table of an answer; modules register theirs here."""
    raise TypeError(f"a {type(answer).__name__} has no table")


def html_of(answer: object) -> str:
    """An answer as HTML for a notebook, light or dark."""
    _import_home(answer)
    card = carded(answer)
    return render_text(text_of(answer)) if card is None else render(card)


def table_of(answer: object) -> Table:
    """The table of an answer."""
    _import_home(answer)
    return tabled(answer)


def frame_of(answer: object) -> Any:
    """The table of an answer as a DataFrame."""
    pandas = library("pandas", "to_pandas", extra="tables")
    table = table_of(answer)
    frame = pandas.DataFrame(list(table.rows), columns=list(table.columns))
    for place, name in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        known = [cell for cell in cells if cell is not None]
        if len(known) < len(cells) and known and all(type(cell) is int for cell in known):
            frame[name] = pandas.array(cells, dtype="Int64")  # else they would become floats
    return frame


def _import_home(answer: object) -> None:
    home = HOMES.get(type(answer).__module__)
    if home is not None:
        import_module(f"segre.report.cards.{home}")
