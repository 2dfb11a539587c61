"""How does a card become HTML that stands in any notebook, light or dark, without scripts?

Text has the colour that the notebook gives it, and lines and marks have colours that are seen on
white and on black alike, so that no theme has to be guessed.
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
    """What is only text, as it is."""
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
    """Which blocks are shown: plots and what is to be saved need a page."""
    kinds = {Facts: "facts", Items: "items", Prose: "prose", Table: "table"}
    return kinds.get(type(block), "")


@cache
def _template() -> Template:
    return environment().from_string(_asset("card.html"))


def _asset(name: str) -> str:
    return files("segre.report.cards").joinpath(name).read_text(encoding="utf-8")
