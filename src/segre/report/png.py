"""Plots as files (.png, .svg, .pdf): the figures of an answer, drawn by matplotlib.

A figure is described by traces and a layout of plotly (`blocks.Figure`). This draws what segre
uses of them: lines, markers, bars, maps, and curves and surfaces in space; axes that are
logarithmic, reversed or have given ticks. It is done without pyplot, so that no window is opened,
no backend is chosen and the plots of a notebook stay as they are.
"""

from __future__ import annotations

import logging
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from segre.errors import SegreError
from segre.files import extension, whole_file
from segre.libraries import library
from segre.report.blocks import Figure
from segre.report.views import drawn, paged

STATIC = (".png", ".svg", ".pdf")
INTERACTIVE = (".html",)
COLOURS = ("#1f5fa8", "#c26a12", "#2c7d4f", "#b3202c", "#7a4fb5", "#5b6770", "#00838f", "#8d6e00")
_NAMED = {"@ink": "0.2", "@faint": "0.45", "@grid": "0.8"}
_DASHES = {"solid": "-", "dash": "--", "dot": ":"}
_SYMBOLS = "osDPX^v<"  # as numbered by plotly
_ACROSS = 3  # figures in a row
_DOTS = 85  # of a figure's height in an inch
_FEW = 150  # cells of a map with room for their numbers
_CAPTION = 700  # letters below a plot
_MANY = 8  # names in a legend that may cover the plot
_LONG = 44  # letters of a name


def require_format(path: Path, formats: tuple[str, ...] = (*STATIC, *INTERACTIVE)) -> str:
    """Refuse a file that is not a plot, or cannot be drawn, before anything is computed."""
    suffix = extension(path, formats)
    if suffix not in formats:
        raise SegreError(
            f"plot {str(path)!r}: unknown file format {path.suffix!r}; allowed: "
            f"{', '.join(formats)}"
        )
    if suffix in STATIC:
        _matplotlib()
    return suffix


def plain_number(value: float) -> str:
    """A number in a few characters.

    >>> plain_number(16384), plain_number(1e6), plain_number(-1e-30), plain_number(0)
    ('16384', '1e6', '-1e-30', '0')
    """
    mantissa, e, exponent = f"{value:g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


def _matplotlib() -> Any:
    """The library, imported without its log, which reports that there is no home directory.

    Nothing is lost: matplotlib then keeps its settings in a temporary directory.
    """
    log = logging.getLogger("matplotlib")
    own = log.level
    log.setLevel(logging.ERROR)
    try:
        library("matplotlib.figure", "drawing a plot")
        return library("matplotlib", "drawing a plot")
    finally:
        log.setLevel(own)


def draw(answer: object, path: Path) -> None:
    """Draw the plots of an answer in the format given by the file's extension."""
    if require_format(path) in INTERACTIVE:
        from segre.report.page.render import write_page

        write_page(paged(answer), path)
    else:
        plot(answer, path)


def plot(answer: object, path: Path) -> None:
    """Draw the plots of an answer in one picture; its file is written whole or not at all."""
    suffix, figures = require_format(path, STATIC), drawn(answer)
    from matplotlib.figure import Figure as Picture
    from matplotlib.text import Text

    across = min(len(figures), _ACROSS if len(figures) != 4 else 2)
    down = -(-len(figures) // across)
    notes, said = (
        " ".join(dict.fromkeys(filter(None, words)))
        for words in zip(*((one.note, one.takeaway) for one in figures), strict=True)
    )
    height = down * max(figure.height for figure in figures) / _DOTS
    size = max(6.4, 5.2 * across), max(3.4, 0.6 + height)
    with _matplotlib().rc_context({"text.parse_math": False}):  # a dollar in a name is a dollar
        page = Picture(figsize=size, layout="constrained")
        for place, figure in enumerate(figures, 1):
            solid = {"projection": "3d"} if "scene" in figure.layout else {}
            draw_figure(page.add_subplot(down, across, place, **solid), figure)
        if said:
            page.suptitle(textwrap.fill(said, 80 * across), fontsize=10)
        if 0 < len(notes) <= _CAPTION:
            words = textwrap.fill(notes, 80 * across)
            page.supxlabel(words, fontsize=8, color=_NAMED["@faint"])
        texts: list[Any] = page.findobj(Text)
        for text in texts:  # half a pair of surrogates in a name of a file is refused
            text.set_text(text.get_text().encode("utf-8", "replace").decode())
        with whole_file(path, suffix) as temporary, warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ ")  # no font has it: a box stands for it
            page.savefig(temporary, dpi=160)


def draw_figure(ax: Any, figure: Figure) -> None:
    """Draw the traces of a figure on axes of matplotlib."""
    layout = figure.layout
    shown = [trace for trace in figure.traces if trace.get("visible", True)]
    if "scene" in layout:
        _solid(ax, figure)
        return
    ends: dict[Any, float] | None = {} if layout.get("barmode") == "stack" else None
    for place, trace in enumerate(shown):
        match trace.get("type", "scatter"):
            case "heatmap":
                _map(ax, trace)
            case "bar":
                _bars(ax, trace, place, ends)
            case _:
                _line(ax, trace, place)
    ax.set_title(textwrap.fill(figure.title, 52), fontsize=10)
    for name in ("x", "y"):
        _axis(ax, name, layout.get(f"{name}axis", {}))
    for note in layout.get("annotations", ()):
        words = note["text"].replace("<br>", "\n")
        ax.text(note["x"], note["y"], words, ha="center", va="center", fontsize=9, color="0.35")
    if layout.get("yaxis", {}).get("scaleanchor"):
        ax.set_aspect("equal")
    maps = any(trace.get("type") == "heatmap" for trace in shown)
    if not maps:
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    if layout.get("showlegend", len(shown) > 1) and ax.get_legend_handles_labels()[1]:
        _legend(ax, below=any(trace.get("orientation") == "h" for trace in shown))


def _legend(ax: Any, *, below: bool) -> None:
    """A legend where there is room: under bars, beside many lines."""
    lines, names = ax.get_legend_handles_labels()
    place: dict[str, Any] = {}
    if below:
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": min(3, len(names))}
    elif len(names) > _MANY:
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    short = [name if len(name) <= _LONG else f"{name[: _LONG - 1]}…" for name in names]
    ax.legend(lines, short, frameon=False, fontsize=8, **place)


def _colour(name: Any, place: int) -> Any:
    """A named colour of the page, for paper."""
    if not isinstance(name, str):
        return COLOURS[place % len(COLOURS)]
    own, _, _ = name.partition("/")
    if own[:1] == "@" and own[1:].isdigit():
        return COLOURS[(int(own[1:]) - 1) % len(COLOURS)]
    return _NAMED.get(own, own)


def _numbers(values: Sequence[Any]) -> Any:
    """Values, with gaps where there are none; names stay names."""
    if any(isinstance(value, str) for value in values):
        return list(map(str, values))
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _line(ax: Any, trace: Mapping[str, Any], place: int) -> None:
    x, y = _numbers(trace["x"]), _numbers(trace["y"])
    line, marker = trace.get("line", {}), trace.get("marker", {})
    colour = _colour(line.get("color", marker.get("color")), place)
    if trace.get("fill"):
        ax.fill(x, y, color=_colour(trace["fillcolor"], place), alpha=0.12, lw=0)
        ax.plot(x, y, color=colour, lw=0.8 * line["width"], label=trace.get("name"))
        return
    mode = trace.get("mode", "lines+markers")
    shape, hollow = _shape(marker.get("symbol", 0))
    points = "markers" in mode and (len(x) <= 60 or "lines" not in mode)
    style: dict[str, Any] = {
        "color": colour,
        "ls": _DASHES[line.get("dash", "solid")] if "lines" in mode else "",
        "marker": shape if points else "",
        "markerfacecolor": "white" if hollow else colour,
        "alpha": trace.get("opacity", marker.get("opacity", 1)),
        "ms": 0.85 * marker.get("size", 6),
        "lw": 0.8 * line.get("width", 2),
        "label": trace.get("name") if trace.get("showlegend", True) else None,
    }
    spread = trace.get("error_y", {})
    if spread.get("visible", bool(spread)):
        reach = spread["array"]
        both = [spread["arrayminus"], reach] if "arrayminus" in spread else reach
        ax.errorbar(x, y, both, capsize=3, elinewidth=0.8, **style)
    else:
        ax.plot(x, y, **style)
    if "text" in mode:
        beside = {"textcoords": "offset points", "xytext": (5, 4 if points else -3)}
        ax.annotate(trace["text"][-1], (x[-1], y[-1]), fontsize=8, annotation_clip=False, **beside)


def _shape(symbol: int | str) -> tuple[str, bool]:
    """A marker by its number or name in plotly, and whether it is open.

    >>> _shape(1), _shape("x"), _shape("circle-open")
    (('s', False), ('x', False), ('o', True))
    """
    if isinstance(symbol, int):
        return _SYMBOLS[symbol % len(_SYMBOLS)], False
    return "x" if symbol.startswith("x") else "o", symbol.endswith("-open")


def _solid(ax: Any, figure: Figure) -> None:
    """Surfaces, curves and points in space."""
    for place, trace in enumerate(figure.traces):
        place_in_space = [np.asarray(trace[name], dtype=float) for name in "xyz"]
        given = trace.get("line", trace.get("marker", {})).get("color")
        colour = _colour(given, place)
        if trace["type"] == "surface":
            alpha = 0.6 * trace["opacity"]
            ax.plot_surface(*place_in_space, color=COLOURS[0], alpha=alpha, rstride=2, cstride=2)
        elif isinstance(given, list):  # a curve, coloured along its way
            ax.scatter(*place_in_space, c=given, cmap="hsv", s=9)
        else:
            ax.plot(*place_in_space, color=colour, lw=0.9, marker="o" if "marker" in trace else "")
            if "text" in trace:
                ax.text(*(one[0] for one in place_in_space), f"  {trace['text'][0]}", color=colour)
    scene = figure.layout["scene"]
    ax.set(**{f"{name}label": scene[f"{name}axis"]["title"]["text"] for name in "xyz"})
    ax.set_title(textwrap.fill(figure.title, 52), fontsize=10)


def _bars(ax: Any, trace: Mapping[str, Any], place: int, ends: dict[Any, float] | None) -> None:
    """Bars with words beside them, stacked on those that end at `ends`, or beside each other."""
    across = trace.get("orientation") == "h"
    names, sizes = (trace["y"], trace["x"]) if across else (trace["x"], trace["y"])
    values = [0.0 if size is None else float(size) for size in sizes]
    starts = [0.0 if ends is None else ends.get(name, 0.0) for name in names]
    where = list(map(str, names)) if across else _numbers(names)
    draw, start = (ax.barh, "left") if across else (ax.bar, "bottom")
    look = {"color": _colour(trace.get("marker", {}).get("color"), place), start: starts}
    shown = draw(where, values, 0.7, label=trace.get("name"), **look)
    if ends is not None:
        ends |= {n: begin + value for n, begin, value in zip(names, starts, values, strict=True)}
    if trace.get("text"):
        ax.bar_label(shown, trace["text"], fontsize=8, padding=3)
        ax.margins(x=0.2)


def _map(ax: Any, trace: Mapping[str, Any]) -> None:
    """Cells from the first row on top; numbers are in them if there is room."""
    values = np.array([[np.nan if v is None else v for v in row] for row in trace["z"]], float)
    rows, columns = values.shape
    given: dict[str, Any] = {key: trace.get(f"z{key[1:]}") for key in ("vmin", "vmax")}
    colours = trace.get("colorscale", "@sequential")
    image = ax.imshow(
        values,
        "viridis" if colours == "@sequential" else colours,
        aspect="auto",
        interpolation="nearest",
        extent=(0.5, columns + 0.5, rows + 0.5, 0.5),
        **given,
    )
    ax.set_facecolor("0.85")  # of cells without a value
    _names(ax, "x", trace["x"])
    _names(ax, "y", trace["y"])
    bar = ax.figure.colorbar(image, ax=ax)
    bar.ax.tick_params(labelsize=8)
    bar.set_label(trace.get("colorbar", {}).get("title", {}).get("text", ""), fontsize=9)
    form = trace.get("texttemplate", "").removeprefix("%{z:").removesuffix("}")
    if form and values.size <= _FEW:
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                dark = sum(image.cmap(image.norm(value))[:3]) < 1.4
                place = (column + 1, row + 1)
                words = trace["text"][row][column] if "text" in trace else format(value, form)
                ax.text(*place, words, ha="center", va="center", fontsize=8, color=f"{dark:.0f}")


def _names(ax: Any, which: str, names: Sequence[Any]) -> None:
    """The ticks of a map: all of its names, or some if there are many."""
    step = -(-len(names) // 24)
    axis = ax.xaxis if which == "x" else ax.yaxis
    long = which == "x" and max(len(str(name)) for name in names) * len(names) > 60
    axis.set_ticks(
        range(1, len(names) + 1, step),
        [str(name)[-24:] for name in names[::step]],
        fontsize=8,
        rotation=45 if long and isinstance(names[0], str) else 0,
    )


def _axis(ax: Any, name: str, given: Mapping[str, Any]) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator

    axis = ax.xaxis if name == "x" else ax.yaxis
    axis.set_label_text(given.get("title", {}).get("text", ""), fontsize=9)
    if given.get("type") == "log":
        ax.set(**{f"{name}scale": "log"})
        low, high = axis.get_view_interval()
        if high < 100 * low:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda value, _: plain_number(value))  # others write formulas
        axis.set_minor_formatter(lambda _value, _: "")
    elif given.get("tickformat") == "d" and not ax.images:
        axis.set_major_locator(MaxNLocator(12, integer=True))
    if "tickvals" in given:
        values = given["tickvals"]
        axis.set_ticks(values, given.get("ticktext", [plain_number(x) for x in values]), fontsize=8)
        axis.set_ticks([], minor=True)
    if given.get("tickformat") == "~s":
        axis.set_major_formatter(EngFormatter(sep=""))
    if given.get("rangemode") == "tozero":
        ax.set(**{f"{name}lim": (min(0, axis.get_view_interval()[0]), None)})
    if "range" in given:
        ax.set(**{f"{name}lim": given["range"]})
    if given.get("autorange") == "reversed" and not ax.images:
        axis.set_inverted(True)
    axis.set_tick_params(labelsize=8)
