"""Outcomes of experiments as plots: their panels, side by side or in rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segre.report.drawing import picture
from segre.reproduce.experiment import Mark, Outcome, Panel, Series

COLOURS = ("#1f5fa8", "#c26a12", "#2c7d4f", "#b3202c", "#7a4fb5", "#5b6770", "#00838f", "#8d6e00")
GREY = "0.45"
_ACROSS = 3  # panels in a row
_STYLES: dict[Mark, dict[str, Any]] = {
    "line": {"ls": "-"},
    "line and points": {"ls": "-", "marker": "o", "ms": 4},
    "points": {"ls": "", "marker": "o", "ms": 5},
    "crosses": {"ls": "", "marker": "x", "ms": 7, "mew": 1.6},
    "dashes": {"ls": "--", "lw": 1.2},
    "dots": {"ls": ":", "lw": 1.4},
}


def plot_outcome(found: Outcome, path: Path) -> None:
    """All panels of an outcome in one picture."""
    panels = found.found.panels
    across = min(len(panels), _ACROSS if len(panels) != 4 else 2)
    down = -(-len(panels) // across)
    with picture(path, max(5.2, 4.6 * across), 0.5 + 4.1 * down) as figure:
        axes = figure.subplots(down, across, squeeze=False).ravel()
        for ax, panel in zip(axes, panels, strict=False):
            _draw(ax, panel)
        for ax in axes[len(panels) :]:
            ax.set_visible(False)
        figure.suptitle(found.question, fontsize=11, wrap=True)


def _draw(ax: Any, panel: Panel) -> None:
    for place, series in enumerate(panel.series):
        _line(ax, series, place)
    ax.set_title(panel.title, fontsize=10)
    ax.set_xlabel(panel.x)
    ax.set_ylabel(panel.y)
    if panel.log_x:
        ax.set_xscale("log")
    if panel.log_y:
        ax.set_yscale("log")
    if panel.ticks:
        ax.set_xticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])
        ax.set_xticks([], minor=True)
    if panel.log_y and not panel.low and ax.get_ylim()[1] < 100 * ax.get_ylim()[0]:
        from matplotlib.ticker import LogLocator

        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    if panel.equal:
        ax.set_aspect("equal")
    if panel.low is not None or panel.high is not None:
        ax.set_ylim(panel.low, panel.high)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    if any(series.label for series in panel.series):
        ax.legend(frameon=False, fontsize=8)


def _line(ax: Any, series: Series, place: int) -> None:
    number = place if series.colour is None else series.colour
    ink = GREY if number < 0 else COLOURS[number % len(COLOURS)]
    y = [float("nan") if value is None else value for value in series.y]
    style = {"color": ink, "label": series.label or None, **_STYLES[series.mark]}
    if series.spread:
        ax.errorbar(series.x, y, series.spread, capsize=3, **style)
    else:
        ax.plot(series.x, y, **style)
