"""Which script draws the plots of a page? The part of plotly.js in plotly/, if it can draw them.

The part is the "cartesian" bundle of plotly.js (MIT licence), a third of the whole;
scripts/vendor_plotly.py renews it. Figures in three dimensions need the whole, which the Python
package plotly has inside. Pages carry either one compressed, and the browser unpacks it.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from segre.libraries import library

# What the bundle draws.
TRACES = frozenset(
    {
        *("bar", "box", "contour", "heatmap", "histogram", "histogram2d", "histogram2dcontour"),
        *("image", "pie", "scatter", "scatterternary", "violin"),
    }
)


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
    if TRACES.issuperset(traces):
        folder = files("segre.report.page").joinpath("plotly")
        compressed = folder.joinpath("plotly-cartesian.min.js.gz").read_bytes()
        text = gzip.decompress(compressed).decode("utf-8")
    else:
        text = library("plotly.offline", "drawing a page").get_plotlyjs()
        compressed = gzip.compress(text.encode("utf-8"), mtime=0)
    return Script(text, base64.b64encode(compressed).decode("ascii"))


def unpacker() -> str:
    """The script that unpacks the other in a browser: `drawingLibrary` is a promise of it."""
    return files("segre.report.page").joinpath("library.js").read_text(encoding="utf-8")
