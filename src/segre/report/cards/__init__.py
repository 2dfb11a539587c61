"""Blocks as a card of a notebook: HTML for any theme, light or dark, without scripts.

Text keeps the colour of the notebook. Lines and marks have colours that are visible on white and on
black, so that the theme does not matter. Plots and downloads need a page, and are left out.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Template
from markupsafe import Markup

from segre.report.blocks import Title, flat, off_terminal
from segre.report.page.marks import MARKS
from segre.report.page.render import MEANINGS, environment
from segre.report.views import tiles_of, view

MOST = 30  # rows of a table; all of them are in to_pandas()


def html_of(answer: object) -> str:
    """An answer as HTML for a notebook."""
    blocks = list(flat(off_terminal(view(answer))))
    html = _template().render(
        title=next((one for one in blocks if isinstance(one, Title)), Title("")),
        tiles=list(tiles_of(blocks)),
        blocks=blocks,
        style=Markup(_asset("card.css")),
        marks=MARKS,
        meanings=MEANINGS,
        most=MOST,
    )
    return html.encode("utf-8", "replace").decode()  # half a pair of surrogates is no character


@cache
def _template() -> Template:
    return environment().from_string(_asset("card.html"))


def _asset(name: str) -> str:
    return files("segre.report.cards").joinpath(name).read_text(encoding="utf-8")
