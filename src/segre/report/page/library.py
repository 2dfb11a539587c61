"""Which script draws the plots of a page? The part of plotly.js in plotly/ that can draw them.

The parts are bundles of plotly.js (MIT licence): "cartesian" for plots in the plane and "gl3d" for
those in space. scripts/vendor_plotly.py renews them. Pages carry one of them compressed, and the
browser unpacks it.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

# What each bundle draws, the smallest first.
BUNDLES = {
    "cartesian": frozenset(
        {
            *("bar", "box", "contour", "heatmap", "histogram", "histogram2d", "histogram2dcontour"),
            *("image", "pie", "scatter", "scatterternary", "violin"),
        }
    ),
    "gl3d": frozenset(
        {
            *("cone", "isosurface", "mesh3d", "scatter", "scatter3d", "streamtube", "surface"),
            "volume",
        }
    ),
}


@dataclass(frozen=True)
class Script:
    """A script, and as a page carries it: compressed, in letters."""

    text: str
    packed: str


def drawing_script(traces: Iterable[str]) -> Script:
    """The smallest script that draws these types of traces.

    >>> script = drawing_script(["scatter", "heatmap"])
    >>> script.text.splitlines()[1].split(" v")[0]
    '* plotly.js (cartesian - minified)'
    """
    wanted = frozenset(traces)
    name = next(name for name, draws in BUNDLES.items() if wanted <= draws)
    folder = files("segre.report.page").joinpath("plotly")
    compressed = folder.joinpath(f"plotly-{name}.min.js.gz").read_bytes()
    text = gzip.decompress(compressed).decode("utf-8")
    return Script(text, base64.b64encode(compressed).decode("ascii"))


def unpacker() -> str:
    """The script that unpacks the other in a browser: `drawingLibrary` is a promise of it."""
    return files("segre.report.page").joinpath("library.js").read_text(encoding="utf-8")
