"""The drawing libraries: loaded only when something is drawn, without changing their settings.

Figures are made without pyplot, so that no window is opened, no backend is chosen and the plots of
a notebook stay as they are.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segre.errors import SegreError
from segre.files import extension, whole_file
from segre.libraries import library

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATIC = (".png", ".svg", ".pdf")
INTERACTIVE = (".html",)


def require_static_format(path: Path) -> str:
    """Refuse a file that is not a plot, or cannot be drawn, before anything is computed."""
    return _require(path, STATIC)


def require_format(path: Path) -> str:
    """The same for commands that also draw interactive pages."""
    return _require(path, (*STATIC, *INTERACTIVE))


def is_interactive(path: Path) -> bool:
    """Whether the file is an HTML page."""
    return path.suffix.lower() in INTERACTIVE


def _require(path: Path, formats: tuple[str, ...]) -> str:
    suffix = extension(path, formats)
    if suffix not in formats:
        raise SegreError(
            f"plot {str(path)!r}: unknown file format {path.suffix!r}; allowed: "
            f"{', '.join(formats)}"
        )
    if not is_interactive(path):
        _matplotlib()
    return suffix


# --- pictures ---------------------------------------------------------------------------------


@contextmanager
def picture(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure to draw on, in inches; its file is written completely or not at all."""
    suffix = require_static_format(path)
    from matplotlib.figure import Figure

    with _matplotlib().rc_context({"text.parse_math": False}):  # a dollar in a name is a dollar
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        _plain_numbers(figure)
        _whole_characters(figure)
        with whole_file(path, suffix) as temporary, warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ ")  # no font has it: a box stands for it
            figure.savefig(temporary, dpi=160)


def _plain_numbers(figure: Figure) -> None:
    """Labels of logarithmic axes as plain text, where matplotlib would write formulas."""
    from matplotlib.ticker import LogFormatter

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), LogFormatter):
                axis.set_major_formatter(lambda value, _: plain_number(value))
                axis.set_minor_formatter(lambda _value, _: "")


def _whole_characters(figure: Figure) -> None:
    """Names of files need not be text: matplotlib refuses half a pair of surrogates."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if isinstance(text, Text):
            text.set_text(text.get_text().encode("utf-8", "replace").decode())


def plain_number(value: float) -> str:
    """A number in a few characters.

    >>> plain_number(16384), plain_number(1e6), plain_number(-1e-30), plain_number(0)
    ('16384', '1e6', '-1e-30', '0')
    """
    mantissa, e, exponent = f"{value:g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


def _matplotlib() -> Any:
    with _silent("matplotlib"):
        library("matplotlib.figure", "drawing a plot")
        return library("matplotlib", "drawing a plot")


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Without a library's log: where no home directory can be written to, its import reports that.

    Nothing is lost: matplotlib then keeps its settings in a temporary directory.
    """
    log = logging.getLogger(name)
    own = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(own)
