"""Blocks as a card of a notebook: HTML for any theme, light or dark, without scripts.

Text keeps the colour of the notebook. Lines and marks have colours that are visible on white and on
black, so that the theme does not matter. Plots and downloads need a page: of a plot in a part of an
answer, a card says what it shows.
"""

from __future__ import annotations

from importlib.resources import files

from markupsafe import Markup

from segre.report.blocks import Title, flat
from segre.report.page.marks import MARKS
from segre.report.page.render import environment
from segre.report.views import MEANINGS, blocks_of, tiles_of

MOST = 30  # rows of a table; all of them are in to_pandas()


def html_of(answer: object) -> str:
    """An answer as HTML for a notebook."""
    folder = files("segre.report.cards")
    template = environment().from_string(folder.joinpath("card.html").read_text(encoding="utf-8"))
    blocks = list(flat("card", blocks_of(answer)))
    html = template.render(
        title=next((one for one in blocks if isinstance(one, Title)), Title("")),
        tiles=list(tiles_of(blocks)),
        blocks=blocks,
        within=lambda part: flat("card", part.blocks),
        style=Markup(folder.joinpath("card.css").read_text(encoding="utf-8")),
        marks=MARKS,
        meanings=MEANINGS,
        most=MOST,
    )
    return html.encode("utf-8", "replace").decode()  # half a pair of surrogates is no character
