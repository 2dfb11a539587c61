"""Plots of sweeps: exact against predicted dimensions, redundancy, and counterexamples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segre.files import whole_file
from segre.report.captions import BLUE, GREY, ORANGE, RED
from segre.report.drawing import is_interactive, picture, require_format
from segre.report.page.figure import WebFigure, plain_words, side_by_side, write_figure
from segre.sweep.picture import Cell, Mark, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BOUND = "lower-bound"
_COLOURS = {"fails": RED, "undecided": ORANGE, "undefined": GREY, _BOUND: ORANGE}
_UP = "dimension (open marks: from lower to upper bound)"
_MANY = 150  # squares that have room for words
_TITLES = ("dimension against prediction", "redundant share of the parameters", "counterexamples")


def draw_sweep(sweep: Picture, path: Path) -> None:
    """Draw a sweep in the format given by the file's extension."""
    require_format(path)
    if is_interactive(path):
        with whole_file(path) as temporary:
            write_figure(_page(sweep), sweep.name, temporary)
    else:
        with picture(path, 15, 4.8) as figure:
            _draw(sweep, figure)


@dataclass(frozen=True)
class _Group:
    """Marks of the same kind."""

    verdict: str
    known: bool  # their dimensions are known; otherwise only bounds are, and they are drawn open
    marks: list[Mark]

    @property
    def label(self) -> str:
        """The text in the legend."""
        what = "" if self.known or self.verdict == _BOUND else ", lower bound"
        return f"{self.verdict.replace('-', ' ')}{what} ({len(self.marks):,})"

    @property
    def colour(self) -> str:
        """By verdict."""
        return _COLOURS.get(self.verdict, BLUE)

    @property
    def up(self) -> list[int]:
        """The distance from each lower bound to its upper bound, if it has one."""
        return [0 if mark.upper is None else mark.upper - mark.lower for mark in self.marks]


def _groups(marks: Sequence[Mark]) -> list[_Group]:
    """Marks by verdict; counterexamples come last and are drawn on top."""
    groups: dict[tuple[str, bool], list[Mark]] = {}
    for mark in marks:
        groups.setdefault((mark.verdict, mark.known), []).append(mark)
    ordered = sorted(groups.items(), key=lambda item: item[0][0] == "fails")
    return [_Group(verdict, known, own) for (verdict, known), own in ordered]


def _failing(sweep: Picture) -> str:
    count = sum(cell.fails for cell in sweep.cells)
    return f"{_TITLES[2]}: {count or 'none'}"


def _draw(sweep: Picture, figure: Figure) -> None:
    left, middle, right = figure.subplots(1, 3)
    for group in _groups(sweep.marks):
        left.errorbar(
            [mark.predicted for mark in group.marks],
            [mark.lower for mark in group.marks],
            yerr=None if group.known else [[0] * len(group.marks), group.up],
            fmt="x" if group.verdict == "fails" else "o",
            color=group.colour,
            markersize=4,
            markerfacecolor=group.colour if group.known else "white",
            elinewidth=0.8,
            alpha=0.6,
            label=group.label,
        )
    ends = [0, max((mark.predicted for mark in sweep.marks), default=1)]
    left.plot(ends, ends, ":", color=GREY, linewidth=1)
    left.set(xlabel=f"predicted: {sweep.prediction}"[:60], ylabel=_UP, title=_TITLES[0])
    if sweep.marks:
        left.legend(frameon=False)
    known = [cell for cell in sweep.cells if cell.redundancy is not None]
    drawn = _squares(middle, known, [cell.redundancy or 0.0 for cell in known], "viridis")
    figure.colorbar(drawn, ax=middle)
    middle.set(title=_TITLES[1])
    _squares(right, sweep.cells, [0.0 for _ in sweep.cells], "Greys")
    for cell in sweep.cells:
        if not cell.fails and len(sweep.cells) > _MANY:
            continue
        colour = RED if cell.fails else GREY
        words = f"{cell.fails}/{cell.rows}" if cell.fails else str(cell.rows)
        right.text(cell.x, cell.y, words, ha="center", va="center", fontsize=8, color=colour)
    right.set(title=f"{_failing(sweep)} (of rows)")
    for ax in (middle, right):
        ax.set(xlabel=sweep.x, ylabel=sweep.y)
        if len(sweep.cells) <= _MANY:
            ax.set_xticks(sorted({cell.x for cell in sweep.cells}))
            ax.set_yticks(sorted({cell.y for cell in sweep.cells}))
    figure.suptitle(f"{sweep.name}   {sweep.claim}"[:140])


def _squares(ax: Axes, cells: Sequence[Cell], values: list[float], colours: str) -> Any:
    across, up = [cell.x for cell in cells], [cell.y for cell in cells]
    ax.margins(0.12)
    return ax.scatter(across, up, c=values, s=420, marker="s", cmap=colours, alpha=0.9)


def _page(sweep: Picture) -> WebFigure:
    figure = side_by_side([*_TITLES[:2], _failing(sweep)])
    for group in _groups(sweep.marks):
        shape = "x" if group.verdict == "fails" else "circle"
        symbol = shape if group.known else f"{shape}-open"
        upwards = {"array": group.up, "arrayminus": [0] * len(group.up), "thickness": 1, "width": 0}
        figure.add(
            "scatter",
            x=[mark.predicted for mark in group.marks],
            y=[mark.lower for mark in group.marks],
            error_y={"visible": not group.known, "symmetric": False, **upwards},
            text=[plain_words(mark.spec) for mark in group.marks],
            mode="markers",
            marker={"color": group.colour, "size": 6, "opacity": 0.6, "symbol": symbol},
            name=plain_words(group.label),
        )
    cells = sweep.cells
    several = [f"{cell.rows} architectures" for cell in cells]
    failing = [f"{cell.fails} of {cell.rows} architectures" for cell in cells]
    redundancy, fails = [cell.redundancy for cell in cells], [cell.fails for cell in cells]
    for panel, values, words, scale in (
        (2, redundancy, several, "Viridis"),
        (3, fails, failing, "Reds"),
    ):
        figure.add(
            "heatmap",
            panel,
            x=[cell.x for cell in cells],
            y=[cell.y for cell in cells],
            z=values,
            text=words,
            colorscale=scale,
            showscale=panel == 2,
            zmin=0,
        )
        figure.label(panel, x=plain_words(sweep.x), y=plain_words(sweep.y))
    figure.label(1, x=plain_words(f"predicted: {sweep.prediction}"), y=_UP)
    figure.layout |= {
        "title": {"text": plain_words(f"{sweep.name}: {sweep.claim}")},
        "height": 560,
        "legend": {"orientation": "h", "y": -0.2},
    }
    return figure
