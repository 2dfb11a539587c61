"""One plotly figure as a page of its own: nothing from elsewhere, and no scripts but its own."""

from __future__ import annotations

import html
import json
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


def write_figure(figure: Any, title: str, path: Path) -> None:
    """Write a figure; all words of its own must be `plain_words`, which are no markup."""
    content = json.loads(figure.to_json())
    library = drawing_script(trace.get("type", "scatter") for trace in content["data"])
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
