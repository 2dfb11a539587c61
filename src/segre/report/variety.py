"""Varieties: degrees, numbers of critical points, landscapes; components of those of ci."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from segre.report.blocks import Blocks, Cell, Fact, Facts, Figure, Say, Table, Tile, Title, table
from segre.report.charts import axis, curve
from segre.report.views import data, on_page, view
from segre.values import counted
from segre.variety.answer import Number
from segre.variety.ci import Decomposition, Membership, said
from segre.variety.critical import Critical
from segre.variety.degree import Degree
from segre.variety.landscape import Landscape
from segre.variety.quadratic import CriticalPoint, Real, Signs

_MOST_LINES = 40
_MOST_LEVELS = 12  # critical points that a picture names; of more it names the minima
_LONG = 16
_SHORT = 12  # digits of a fraction that is printed as it is


@view
def of_degree(found: Degree) -> Blocks:
    """The degree, its formula and the count."""
    yield from _number(found, "degree", "points on a random linear space")


@view
def of_critical(found: Critical) -> Blocks:
    """The number of critical points, its formula and the count."""
    yield from _number(found, "critical", f"critical points for random data, {found.metric} metric")


def _number(found: Number, name: str, what: str) -> Blocks:
    yield Title(str(found.spec), style="")
    yield Facts(tuple(_facts(found, name, what)), grouped=False)
    if found.value is not None and _whole(found.value) != str(found.value):
        yield Say(f"exactly {found.value}", wrap=False)


def _facts(found: Number, name: str, what: str) -> Iterator[Fact]:
    count = found.count
    if found.value is not None:
        yield Tile(name, _whole(found.value), "proved by theorem", "proved by a formula")
    elif count is not None:
        words = "lower bound: counted; no upper bound is proved"
        yield Tile(name, str(count.functions), "bounded", words)
    else:
        yield name, "?", found.reason
    if isinstance(found, Critical):
        yield "metric", "", found.metric
    if found.dimension is not None:
        yield "dimension", found.dimension, "of the function variety"
    if found.formula is not None:
        yield "formula", _whole(found.formula.value), found.formula.says
    else:
        yield "formula", "-", "no formula is known"
    if count is not None:
        fibers = f", from {count.weights} weights" if count.weights != count.functions else ""
        where = f"mod {count.p} (seed {count.seed})"
        yield "counted", count.functions, f"{what} {where}{fibers}: a lower bound"
    elif found.value is not None:
        yield "counted", "-", found.reason.removeprefix("not counted: ")


@view
def of_landscape(found: Landscape) -> Blocks:
    """A line for each critical point, the minima by output signs, and where descents ended."""
    yield Title(f"{found.spec}, {found.metric} metric", style="")
    yield Say(f"eigenvalues of the target: {', '.join(map(_shown, found.target))}", wrap=False)
    yield Say()
    yield table(
        "Critical points",
        found.points[:_MOST_LINES],
        ("keeps", lambda point: _kept(point, found)),
        ("eigenvalues", lambda point: ", ".join(map(_shown, point.values))),
        ("loss", lambda point: _shown(point.loss), ">"),
        ("exactly", lambda point: _exactly(point.loss), ">"),
        ("kind", found.kind),
    )
    if len(found.points) > _MOST_LINES:
        more = f"{len(found.points) - _MOST_LINES:,}"
        yield Say(f"and {more} more, with larger losses (--json has all)", wrap=False)
    yield Say()
    yield _endings(found)
    yield on_page(_descents(found))


def _endings(found: Landscape) -> Table:
    ended = {run.signs: Counter(run.ends) for run in found.runs}
    rows: list[tuple[Cell, ...]] = []
    for one in found.endings:
        lowest = one.point.loss == found.points[0].loss
        where = "boundary, spurious" if one.boundary else "local minimum"
        cells = (_signs(one.signs), _kept(one.point, found), f"{float(one.point.loss):.6g}")
        runs = [ended[one.signs][one]] if found.runs else []
        rows.append((*cells, "global minimum" if lowest else where, *runs))
    lost = [(run.signs, ended[run.signs][None]) for run in found.runs]
    rows += [(_signs(one), "-", "-", "not yet at a minimum", few) for one, few in lost if few]
    names = ("output signs", "minimum keeps", "loss", "where", *["descents"] * bool(found.runs))
    numeric = (False, False, True, False, True)[: len(names)]
    return Table("Minima", names, tuple(rows), numeric)


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
    short = isinstance(value, Fraction) and len(str(value)) <= 2 * _SHORT
    return str(value) if short else "-"


def _descents(found: Landscape) -> Blocks:
    """Losses of gradient descent against steps, with the losses of critical points."""
    last = max((run.steps[-1] for run in found.runs), default=1)
    traces: list[dict[str, Any]] = []
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(found.runs):
        signs = _signs(run.signs)
        look: dict[str, Any] = {"name": f"output signs {signs}", "opacity": 0.35, "width": 1}
        for place, losses in enumerate(run.curves):
            steps, values = [*run.steps, last], [*map(float, losses), float(losses[-1])]
            rows += [(signs, *pair) for pair in zip(steps, values, strict=True)]
            traces.append(curve(steps, values, f"@{1 + number % 8}", showlegend=place == 0, **look))
    few = found.points if len(found.points) <= _MOST_LEVELS else found.points[:1]
    minima = [one.point for one in found.endings if not one.boundary]
    levels = {float(one.loss): found.kind(one).split(",")[0] for one in (*few, *minima)}
    for one in found.endings:
        if one.boundary:
            levels.setdefault(float(one.point.loss), "boundary, spurious")
    for loss, kind in sorted(levels.items()):
        dash = "dash" if "minimum" in kind or "spurious" in kind else "dot"
        words = {"text": ["", f"{loss:.6g}  {kind}"], "textposition": "top left"}
        look = {"name": kind, "showlegend": False, "width": 1, "line": {"dash": dash}, **words}
        traces.append(curve([0, last], [loss, loss], "@faint", mode="lines+text", **look))
    layout = {
        "xaxis": axis("steps of gradient descent", range=[0, last]),
        "yaxis": axis("loss", range=[0, 1.3 * max(levels)]),
    }
    title = "Losses of gradient descent, and of critical points"
    numbers = Table("Losses", ("output signs", "step", "loss"), tuple(rows))
    yield Figure(title, "", tuple(traces), layout, numbers, height=440)


@view
def of_decomposition(found: Decomposition) -> Blocks:
    """The kinds of components, and where a matrix lies if there is one."""
    grid = found.grid
    head = f"{grid.d} x {grid.k * grid.l} matrices on a {grid.k}x{grid.l} grid: rank < {grid.s} in "
    yield Title(f"{head}grid columns, rank < {grid.t} in grid rows")
    count, name = counted(found.value, "component").split()
    yield Facts((Tile(name, count, "proved by theorem", f"proved: {found.how}"),))
    yield Say()
    tangents = [()] * len(found.kinds) if not found.tangents else [(n,) for n in found.tangents]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f"{kind.count:>6}", f"{kind.dimension:>9}", *more, said(grid, kind.example))
        for kind, more in zip(found.kinds, tangents, strict=True)
    )
    names = (" count", "dimension", *["tangent"] * bool(found.tangents), "points of one of them")
    yield Table("Components", names, rows, (*[True] * (len(names) - 1), False))
    if found.membership is not None:
        yield Say()
        yield Facts(tuple(_matrix(found, found.membership)))
    points = ("points", lambda one: said(found.grid, one.example))
    yield data([table("Components", found.kinds, "count", "dimension", points)])


def _matrix(found: Decomposition, own: Membership) -> Iterator[Fact]:
    if own.reason:
        yield "matrix", "", f"not in the variety: {own.reason}"
        return
    yield "matrix", "", f"on {counted(own.count, 'component')}"
    yield from (("", one.dimension, said(found.grid, one)) for one in own.components)
    if own.count > len(own.components):
        yield "", "", f"and {own.count - len(own.components):,} more"
