"""Degrees, numbers of critical points and landscapes, on the terminal and as a plot."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

from rich.table import Table

from segre.report.console import Lines, plain_console, print_lines
from segre.report.drawing import picture
from segre.report.text import printed, say
from segre.variety.answer import Number
from segre.variety.critical import Critical
from segre.variety.degree import Degree
from segre.variety.landscape import Landscape
from segre.variety.quadratic import CriticalPoint, Real, Signs

_MOST_LINES = 40
_MOST_LEVELS = 12  # critical points that a picture names; of more it names the minima
_INKS = ("#1f5fa8", "#c26a12", "#b3202c", "#2f8f4e", "#7a4fb5", "#5b6770")
_LONG = 16
_SHORT = 12  # digits of a fraction that is printed as it is


@printed.register
def print_degree(found: Degree) -> None:
    """The degree, its formula and the count."""
    _print_number(found, "degree", "points on a random linear space")


@printed.register
def print_critical(found: Critical) -> None:
    """The number of critical points, its formula and the count."""
    _print_number(found, "critical", f"critical points for random data, {found.metric} metric")


def _print_number(found: Number, name: str, what: str) -> None:
    say(str(found.spec))
    if found.value is not None:
        head = (name, _whole(found.value), "proved by a formula")
    elif found.count is not None:
        words = "lower bound: counted; no upper bound is proved"
        head = (name, str(found.count.functions), words)
    else:
        head = (name, "?", found.reason)
    lines: Lines = [head]
    if isinstance(found, Critical):
        lines.append(("metric", "", found.metric))
    if found.dimension is not None:
        lines.append(("dimension", str(found.dimension), "of the function variety"))
    if found.formula is not None:
        lines.append(("formula", _whole(found.formula.value), found.formula.says))
    else:
        lines.append(("formula", "-", "no formula is known"))
    if found.count is not None:
        count = found.count
        fibers = f", from {count.weights} weights" if count.weights != count.functions else ""
        where = f"mod {count.p} (seed {count.seed})"
        lines.append(("counted", str(count.functions), f"{what} {where}{fibers}: a lower bound"))
    elif found.value is not None:
        lines.append(("counted", "-", found.reason.removeprefix("not counted: ")))
    print_lines(plain_console(), lines)
    if found.value is not None and _whole(found.value) != str(found.value):
        say(f"exactly {found.value}")


@printed.register
def print_landscape(found: Landscape) -> None:
    """A line for each critical point, the minima by output signs, and where descents ended."""
    say(f"{found.spec}, {found.metric} metric")
    say(f"eigenvalues of the target: {', '.join(map(_shown, found.target))}")
    say("")
    table = Table(box=None, pad_edge=False)
    table.add_column("keeps", no_wrap=True)
    table.add_column("eigenvalues", no_wrap=True)
    table.add_column("loss", justify="right", no_wrap=True)
    table.add_column("exactly", justify="right", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    for point in found.points[:_MOST_LINES]:
        table.add_row(
            _kept(point, found),
            ", ".join(map(_shown, point.values)),
            f"{float(point.loss):.6g}",
            _exactly(point.loss),
            found.kind(point),
        )
    plain_console().print(table)
    if len(found.points) > _MOST_LINES:
        say(f"and {len(found.points) - _MOST_LINES:,} more, with larger losses (--json has all)")
    say("")
    _print_endings(found)


def _print_endings(found: Landscape) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("output signs", no_wrap=True)
    table.add_column("minimum keeps", no_wrap=True)
    table.add_column("loss", justify="right", no_wrap=True)
    table.add_column("where", no_wrap=True)
    if found.runs:
        table.add_column("descents", justify="right", no_wrap=True)
    ended = {run.signs: Counter(run.ends) for run in found.runs}
    for one in found.endings:
        lowest = one.point.loss == found.points[0].loss
        where = "boundary, spurious" if one.boundary else "local minimum"
        cells = [_signs(one.signs), _kept(one.point, found), f"{float(one.point.loss):.6g}"]
        runs = [str(ended[one.signs][one])] if found.runs else []
        table.add_row(*cells, "global minimum" if lowest else where, *runs)
    for run in found.runs:
        if lost := ended[run.signs][None]:
            table.add_row(_signs(run.signs), "-", "-", "not yet at a minimum", str(lost))
    plain_console().print(table)


def _whole(value: int) -> str:
    """A whole number; a long one by its first digits."""
    digits = str(value)
    if len(digits) <= _LONG:
        return digits
    return f"{digits[0]}.{digits[1:4]}e{len(digits) - 1}"


def _kept(point: CriticalPoint, found: Landscape) -> str:
    return ", ".join(_shown(found.target[i]) for i in point.kept) or "nothing"


def _signs(signs: Signs) -> str:
    return "+" * signs[0] + "-" * signs[1]


def _shown(value: Real) -> str:
    return f"{float(value):.6g}"


def _exactly(value: Real) -> str:
    text = str(value) if isinstance(value, Fraction) else ""
    return text if 0 < len(text) <= 2 * _SHORT else "-"


def plot_landscape(found: Landscape, path: Path) -> None:
    """Losses of gradient descent against steps, with the losses of critical points."""
    with picture(path, 8, 4.8) as figure:
        ax = figure.subplots()
        last = max((run.steps[-1] for run in found.runs), default=1)
        for number, run in enumerate(found.runs):
            ink = _INKS[number % len(_INKS)]
            for curve in run.curves:
                steps, losses = [*run.steps, last], [*curve, curve[-1]]
                ax.plot(steps, losses, color=ink, alpha=0.35, linewidth=0.9)
            ax.plot([], [], color=ink, label=_signs(run.signs))
        shown = found.points if len(found.points) <= _MOST_LEVELS else found.points[:1]
        minima = [one.point for one in found.endings if not one.boundary]
        levels = {float(one.loss): found.kind(one) for one in (*shown, *minima)}
        spurious = {float(one.point.loss) for one in found.endings if one.boundary} - set(levels)
        for loss, kind in levels.items():
            style = "--" if "minimum" in kind else ":"
            ax.axhline(loss, color="#333333", linestyle=style, linewidth=0.8)
        for loss in spurious:
            ax.axhline(loss, color="#b3202c", linestyle="--", linewidth=0.8)
        ax.set_xlim(0, last)
        top = max([*levels, *spurious])
        ax.set_ylim(0, 1.3 * top)
        names = {loss: kind.split(",")[0] for loss, kind in levels.items()}
        _label(ax, {**names, **dict.fromkeys(spurious, "boundary, spurious")}, top)
        ax.set_xlabel("steps of gradient descent")
        ax.set_ylabel("loss")
        ax.spines[["top", "right"]].set_visible(False)
        if found.runs:
            ax.legend(
                title="output signs",
                loc="upper right",
                ncols=min(4, len(found.runs)),
                framealpha=1,
                edgecolor="none",
            )


def _label(ax: object, names: dict[float, str], top: float) -> None:
    """Labels to the right of the levels, moved apart where they would overlap."""
    from matplotlib.axes import Axes

    assert isinstance(ax, Axes)
    gap, at = 0.055 * top, float("-inf")
    for loss in sorted(names):
        at = max(loss, at + gap)
        text = f" {loss:.6g}  {names[loss]}"
        ax.annotate(
            text,
            (1, at),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
            annotation_clip=False,
        )
