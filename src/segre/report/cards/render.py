"""How does a card become HTML for any notebook, light or dark, without scripts?

Text keeps the colour of the notebook. Lines and marks have colours that are visible on white and on
black, so that the theme does not matter.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Template
from markupsafe import Markup

from segre.report.cards.card import Card
from segre.report.page.blocks import Facts, Items, Prose, Table
from segre.report.page.marks import MARKS
from segre.report.page.render import MEANINGS, environment

MOST = 30  # rows of a table; all of them are in to_pandas()


def render(card: Card) -> str:
    """The card as HTML."""
    return _filled(card=card, text=None)


def render_text(text: str) -> str:
    """Plain text, escaped."""
    return _filled(card=None, text=text)


def _filled(card: Card | None, text: str | None) -> str:
    html = _template().render(
        card=card,
        text=text,
        style=Markup(_asset("card.css")),
        marks=MARKS,
        meanings=MEANINGS,
        most=MOST,
        kind=_kind,
    )
    return html.encode("utf-8", "replace").decode()  # half a pair of surrogates is no character


def _kind(block: object) -> str:
    """The blocks that are shown: plots and downloads need a page."""
    kinds = {Facts: "facts", Items: "items", Prose: "prose", Table: "table"}
    return kinds.get(type(block), "")


@cache
def _template() -> Template:
    return environment().from_string(_asset("card.html"))


def _asset(name: str) -> str:
    return files("segre.report.cards").joinpath(name).read_text(encoding="utf-8")
