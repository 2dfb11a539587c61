"""How do scripts and data get into a page?

Data are strict JSON that no parser of HTML takes for markup. Plots are drawn by a bundle of
plotly.js (MIT licence) in plotly/: "cartesian" for plots in the plane and "gl3d" for those in
space. scripts/vendor_plotly.py renews them. Pages carry one of them compressed, and the browser
unpacks it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from segre.json_data import strict_json

# Inside a script element these could end it, or open a comment; as escapes they are the same JSON.
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def embedded(value: Any) -> str:
    r"""A value as JSON to stand inside a script element; what is not a finite number is null.

    >>> embedded({"</script>": [1, float("nan")]})
    '{"\\u003c/script\\u003e": [1, null]}'
    """
    return strict_json(value).translate(_ESCAPES)


def policy(scripts: list[str], *, styles: list[str] | None = None, connect: bool = False) -> str:
    """The content security policy of a page: nothing from elsewhere, no scripts but these.

    With `styles` no other style sheet is allowed either; with `connect` the page may ask the server
    that it came from.
    """
    looks = "'unsafe-inline'" if styles is None else _digests(styles)
    asks = "connect-src 'self'; " if connect else ""
    return (
        f"default-src 'none'; script-src {_digests(scripts)}; style-src {looks}; {asks}"
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _digests(texts: list[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def asset(name: str) -> str:
    """A script, style sheet or template of pages."""
    return files("segre.report.page").joinpath(name).read_text(encoding="utf-8")


# What each bundle draws, the smallest first.
BUNDLES = {
    "cartesian": "bar box contour heatmap histogram histogram2d histogram2dcontour image pie "
    "scatter scatterternary violin",
    "gl3d": "cone isosurface mesh3d scatter scatter3d streamtube surface volume",
}


def drawing_script(traces: Iterable[str]) -> tuple[str, str]:
    """The smallest script that draws these types of traces, and as a page carries it: compressed.

    >>> script, packed = drawing_script(["scatter", "heatmap"])
    >>> script.splitlines()[1].split(" v")[0]
    '* plotly.js (cartesian - minified)'
    """
    wanted = set(traces)
    name = next(name for name, draws in BUNDLES.items() if wanted <= {*draws.split()})
    folder = files("segre.report.page").joinpath("plotly")
    compressed = folder.joinpath(f"plotly-{name}.min.js.gz").read_bytes()
    return gzip.decompress(compressed).decode(), base64.b64encode(compressed).decode("ascii")
