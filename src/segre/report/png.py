"""Plots as files (.png, .svg, .pdf): the figures of an answer, drawn by matplotlib.

A figure is described by traces and a layout of plotly (`blocks.Figure`). This draws what segre
uses of them: lines, markers, bars and maps; axes that are logarithmic, reversed or have given
ticks.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from segre.report.blocks import Figure
from segre.report.drawing import picture, plain_number
from segre.report.views import figures_of

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


def plot(answer: object, path: Path) -> None:
    """Draw the plots of an answer in one picture."""
    figures = figures_of(answer)
    across = min(len(figures), _ACROSS if len(figures) != 4 else 2)
    down = -(-len(figures) // across)
    notes = " ".join(dict.fromkeys(figure.note for figure in figures if figure.note))
    said = " ".join(dict.fromkeys(figure.takeaway for figure in figures if figure.takeaway))
    height = down * max(figure.height for figure in figures) / _DOTS
    with picture(path, max(6.4, 5.2 * across), max(3.4, 0.6 + height)) as page:
        axes = page.subplots(down, across, squeeze=False).ravel()
        for ax, figure in zip(axes, figures, strict=False):
            _draw(ax, figure)
        for ax in axes[len(figures) :]:
            ax.set_visible(False)
        if said:
            page.suptitle(textwrap.fill(said, 80 * across), fontsize=10)
        if 0 < len(notes) <= _CAPTION:
            words = textwrap.fill(notes, 80 * across)
            page.supxlabel(words, fontsize=8, color=_NAMED["@faint"])


def _draw(ax: Any, figure: Figure) -> None:
    layout = figure.layout
    shown = [trace for trace in figure.traces if trace.get("visible", True)]
    bars = _Bars(layout.get("barmode") == "stack", len(shown))
    for place, trace in enumerate(shown):
        kind = trace.get("type", "scatter")
        if kind == "heatmap":
            _map(ax, trace)
        elif kind == "bar":
            bars.draw(ax, trace, place)
        else:
            _line(ax, trace, place)
    ax.set_title(textwrap.fill(figure.title, 52), fontsize=10)
    for name in ("x", "y"):
        _axis(ax, name, layout.get(f"{name}axis", {}))
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
    short = [textwrap.shorten(name, _LONG, placeholder="…") for name in names]
    short = [name if len(name) <= _LONG else f"{name[: _LONG - 1]}…" for name in short]
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
        ax.fill(x, y, color=colour, alpha=0.12, lw=0)
        return
    mode = trace.get("mode", "lines+markers")
    symbol = marker.get("symbol", 0)
    shape = _SYMBOLS[symbol % len(_SYMBOLS)] if isinstance(symbol, int) else symbol[:1]
    style: dict[str, Any] = {
        "color": colour,
        "ls": _DASHES[line.get("dash", "solid")] if "lines" in mode else "",
        "marker": shape if "markers" in mode and len(x) <= 60 else "",
        "ms": 0.85 * marker.get("size", 6),
        "lw": 0.8 * line.get("width", 2),
        "label": trace.get("name") if trace.get("showlegend", True) else None,
    }
    spread = trace.get("error_y")
    if spread:
        ax.errorbar(x, y, spread["array"], capsize=3, **style)
    else:
        ax.plot(x, y, **style)
    if "text" in mode:
        ax.annotate(f" {trace['text'][-1]}", (x[-1], y[-1]), fontsize=8, annotation_clip=False)


class _Bars:
    """Bars of one plot: stacked, or beside each other."""

    def __init__(self, stacked: bool, count: int) -> None:
        self.stacked, self.count = stacked, count
        self.ends: dict[Any, float] = {}

    def draw(self, ax: Any, trace: Mapping[str, Any], place: int) -> None:
        """Draw one trace, with its words beside the bars."""
        across = trace.get("orientation") == "h"
        names, sizes = (trace["y"], trace["x"]) if across else (trace["x"], trace["y"])
        values = [0.0 if size is None else float(size) for size in sizes]
        starts = [self.ends.get(name, 0.0) if self.stacked else 0.0 for name in names]
        colour = _colour(trace.get("marker", {}).get("color"), place)
        label = trace.get("name")
        where = list(map(str, names)) if across else _numbers(names)
        draw, start = (ax.barh, "left") if across else (ax.bar, "bottom")
        drawn = draw(where, values, 0.7, color=colour, label=label, **{start: starts})
        for name, begin, value in zip(names, starts, values, strict=True):
            self.ends[name] = begin + value
        if trace.get("text"):
            ax.bar_label(drawn, trace["text"], fontsize=8, padding=3)
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
                words = format(value, form)
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
    from matplotlib.ticker import LogLocator, MaxNLocator

    axis = ax.xaxis if name == "x" else ax.yaxis
    axis.set_label_text(given.get("title", {}).get("text", ""), fontsize=9)
    mapped = bool(ax.images)
    if given.get("type") == "log":
        getattr(ax, f"set_{name}scale")("log")
        low, high = axis.get_view_interval()
        if high < 100 * low:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    elif given.get("tickformat") == "d" and not mapped:
        axis.set_major_locator(MaxNLocator(12, integer=True))
    if "tickvals" in given:
        values = given["tickvals"]
        axis.set_ticks(values, given.get("ticktext", [plain_number(x) for x in values]), fontsize=8)
        axis.set_ticks([], minor=True)
    if given.get("tickformat") == "~s":
        axis.set_major_formatter(lambda value, _: _short(value))
    if given.get("rangemode") == "tozero":
        low = min(0, axis.get_view_interval()[0])
        getattr(ax, f"set_{name}lim")(**{"left" if name == "x" else "bottom": low})
    if "range" in given:
        getattr(ax, f"set_{name}lim")(*given["range"])
    if given.get("autorange") == "reversed" and not mapped:
        axis.set_inverted(True)
    axis.set_tick_params(labelsize=8)


def _short(value: float) -> str:
    """A tick of a large number: 12k, 3M.

    >>> _short(12000.0), _short(2.5e9), _short(0.0)
    ('12k', '2.5G', '0')
    """
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if abs(value) >= 10**power:
            return f"{value / 10**power:g}{letter}"
    return f"{value:g}"
