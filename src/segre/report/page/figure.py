"""One plotly figure as a page of its own: nothing from elsewhere, and no scripts but its own."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from segre.report.page.embed import embedded, policy
from segre.report.page.library import drawing_script, unpacker

_DRAW = """
const figure = JSON.parse(document.getElementById("figure").textContent);
window.drawingLibrary
  .then((Plotly) => Plotly.newPlot("plot", figure.data, figure.layout, { responsive: true }))
  .then(() => (document.documentElement.dataset.drawn = ""));
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
</head>
<body>
<div id="plot"></div>
<script type="application/json" id="figure">{figure}</script>
<script type="text/plain" id="page-library">{library}</script>
<script>{unpacker}</script>
<script>{draw}</script>
</body>
</html>
"""


_GAP = 0.2  # between panels: of the width of the figure, divided by their number
_LAYOUT = {"margin": {"t": 90}, "hovermode": "closest"}


@dataclass
class WebFigure:
    """Traces and a layout, in the words of plotly.js; arrays are allowed."""

    data: list[dict[str, Any]] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=lambda: dict(_LAYOUT))

    def add(self, kind: str, panel: int = 1, **trace: Any) -> None:
        """A trace of a type, in a panel of `side_by_side`, counted from 1."""
        number = "" if panel == 1 else panel
        place = (
            {"scene": f"scene{number}"}
            if kind in ("surface", "scatter3d")
            else {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        )
        self.data.append({"type": kind, **place, **trace})

    def label(self, panel: int, **titles: str) -> None:
        """Titles of the axes of a panel, as `x="..."`."""
        number = "" if panel == 1 else panel
        flat = {key: self.layout.setdefault(f"{key}axis{number}", {}) for key in titles}
        scene = self.layout.get(f"scene{number}")
        for key, title in titles.items():
            axis = flat[key] if scene is None else scene.setdefault(f"{key}axis", {})
            axis["title"] = {"text": title}


def side_by_side(titles: Sequence[str], solid: Sequence[int] = ()) -> WebFigure:
    """A figure with panels in a row, each with a title; those that are `solid` are scenes.

    >>> side_by_side(["a", "b"], solid=[1]).layout["scene"]["domain"]["x"]
    [0.0, 0.45]
    """
    figure, many = WebFigure(), len(titles)
    gap = _GAP / many
    wide = (1 - gap * (many - 1)) / many
    words = {"xref": "paper", "yref": "paper", "xanchor": "center", "yanchor": "bottom"}
    notes = figure.layout["annotations"] = []
    for panel, title in enumerate(titles, 1):
        number, left = "" if panel == 1 else panel, (panel - 1) * (wide + gap)
        across = [round(left, 6), round(left + wide, 6)]
        if panel in solid:
            figure.layout[f"scene{number}"] = {"domain": {"x": across, "y": [0, 1]}}
        else:
            figure.layout[f"xaxis{number}"] = {"domain": across, "anchor": f"y{number}"}
            figure.layout[f"yaxis{number}"] = {"anchor": f"x{number}"}
        middle = {"x": left + wide / 2, "y": 1, "text": title, "showarrow": False}
        notes.append({**words, **middle, "font": {"size": 15}})
    return figure


def write_figure(figure: WebFigure, title: str, path: Path) -> None:
    """Write a figure; all words of its own must be `plain_words`, which are no markup."""
    content = {"data": figure.data, "layout": figure.layout}
    library = drawing_script(trace["type"] for trace in figure.data)
    page = _PAGE.format(
        policy=html.escape(policy([library.text, unpacker(), _DRAW])),
        title=html.escape(title),
        figure=embedded(content),
        library=library.packed,
        unpacker=unpacker(),
        draw=_DRAW,
    )
    path.write_text(page, encoding="utf-8", errors="replace")


def plain_words(text: str) -> str:
    """Words that came from outside, for a figure: plotly takes some tags in them for markup.

    >>> plain_words('<a href="https://x.example">d</a>')
    '&lt;a href="https://x.example"&gt;d&lt;/a&gt;'
    """
    return html.escape(text, quote=False)
