"""The kinds of plots: bars, lines, maps of layers and heads, a whole with its parts, a curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

from segre.finding import Status
from segre.report.blocks import Figure, Table

Number = float | int | None
_LOWEST = 1e-30  # smaller residuals are in the table only


class About(TypedDict, total=False):
    """What is said of a plot, beside its title; see `Figure`."""

    takeaway: str
    note: str
    height: int
    status: Status


def figure(
    title: str,
    traces: Sequence[Mapping[str, Any]],
    layout: Mapping[str, Any],
    numbers: Table,
    **about: Unpack[About],
) -> Figure:
    """A figure of traces; `numbers` get its title if they have none."""
    table = replace(numbers, title=numbers.title or title)
    more: dict[str, Any] = {"takeaway": "", **about}
    return Figure(title, traces=tuple(traces), layout=layout, numbers=table, **more)


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with a title."""
    return {"title": {"text": title}, **more}


def curve(
    x: Sequence[Any], y: Sequence[Any], colour: str = "@1", *, width: float = 2, **more: Any
) -> dict[str, Any]:
    """The trace of a line through points; `more` is what else plotly should know of it."""
    line = {"color": colour, "width": width, **more.pop("line", {})}
    return {"type": "scatter", "mode": "lines", "x": list(x), "y": list(y), "line": line, **more}


def bars(
    title: str,
    names: Sequence[str],
    pieces: Mapping[str, Sequence[Number]],
    *,
    unit: str,
    words: Sequence[str] = (),
    rest: str = "",
    numbers: Table | None = None,
    **about: Unpack[About],
) -> Figure:
    """A horizontal bar for each name, the first on top, made of pieces.

    In pictures, `words` stand beside the bars; the piece called `rest` is grey.
    """
    beside = {"text": list(words), "textposition": "none"} if words else {}
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": piece,
            "y": list(names),
            "x": list(values),
            "marker": {"color": "@grid" if piece == rest else f"@{1 + number % 8}"},
            "hovertemplate": f"%{{y}}, {piece}: %{{x:,.4~g}}<extra></extra>",
            **(beside if number == len(pieces) - 1 else {}),
        }
        for number, (piece, values) in enumerate(pieces.items())
    ]
    rows = tuple(
        (name, *(values[n] for values in pieces.values()), *words[n : n + 1])
        for n, name in enumerate(names)
    )
    table = numbers or Table("", ("", *pieces, *[""] * bool(words)), rows)
    form = _large([x for values in pieces.values() for x in values])
    layout = {
        "barmode": "stack",
        "xaxis": axis(unit, rangemode="tozero", nticks=6, tickformat=form),
        "yaxis": {"automargin": True, "ticklabelstandoff": 6, "autorange": "reversed", "dtick": 1},
        "showlegend": len(pieces) > 1,
        "bargap": 0.35,
    }
    about.setdefault("height", 90 + 30 * len(names) + 40 * (len(pieces) > 1))
    return figure(title, traces, layout, table, **about)


def _large(values: Sequence[Number]) -> str:
    """The format of an axis: 12k, 3M if its numbers are large."""
    return "~s" if max((value or 0 for value in values), default=0) > 1000 else ""


def columns(
    title: str,
    x: tuple[str, Sequence[int] | Sequence[str]],
    y: tuple[str, Sequence[Number]],
    *,
    numbers: Table,
    **about: Unpack[About],
) -> Figure:
    """Vertical bars over whole numbers, or over names."""
    trace = {
        "type": "bar",
        "x": list(x[1]),
        "y": list(y[1]),
        "marker": {"color": "@1"},
        "hovertemplate": f"{x[0]} %{{x}}: %{{y:.4g}}<extra></extra>",
    }
    layout = {
        "xaxis": axis(x[0], **_ticks(x[1])),
        "yaxis": axis(y[0], rangemode="tozero", tickformat=_large(y[1])),
        "showlegend": False,
        "bargap": 0.25,
    }
    about.setdefault("height", 300)
    return figure(title, [trace], layout, numbers, **about)


def lines(
    title: str,
    places: Sequence[float],
    series: Mapping[str, Sequence[Number]],
    *,
    y: str,
    log: bool = False,
    dashed: Sequence[str] = (),
    dotted: Sequence[str] = (),
    lowest: float = 0.0,
    first: str = "layer",
    log_x: bool = False,
    span: tuple[float, float] | None = None,
    mode: str = "lines+markers",
    **about: Unpack[About],
) -> Figure:
    """One line for each series, over layers or other numbers; a series may end early."""
    series = {name: [*own, *[None] * (len(places) - len(own))] for name, own in series.items()}
    dashes = {**dict.fromkeys(dashed, "dash"), **dict.fromkeys(dotted, "dot")}
    traces = [
        curve(
            places,
            [value if not log or (value or 0) > lowest else None for value in values],
            f"@{1 + n % 8}",
            mode="lines" if name in dotted else mode,
            name=name,
            line={"dash": dashes.get(name, "solid")},
            marker={"size": 5, "symbol": n % 8},
            hovertemplate=f"{name}, {first} %{{x}}: %{{y:.3g}}<extra></extra>",
        )
        for n, (name, values) in enumerate(series.items())
    ]
    rows = tuple(zip(places, *series.values(), strict=True))
    table = Table("", (first, *series), rows, (True,) * (1 + len(series)))
    shown = [value for values in series.values() for value in values if (value or 0) > lowest]
    ticks: dict[str, Any] = {}
    if log_x:
        ticks["type"] = "log"
        if len(places) <= 10:
            ticks |= {"tickvals": list(places), "ticktext": [f"{place:,}" for place in places]}
    elif all(float(place).is_integer() for place in places):
        ticks = whole_ticks(len(places))
    limits = {} if span is None else {"range": list(span)}
    layout = {
        "xaxis": axis(first, **ticks),
        "yaxis": axis(y, **(ratio_axis(shown) if log else {}), **limits),
        "showlegend": len(series) > 1,
    }
    return figure(title, traces, layout, table, **about)


def residuals(
    series: Mapping[str, Sequence[Number]],
    *,
    dashed: Sequence[str] = (),
    dotted: Sequence[str] = (),
    title: str = "How different tokens are, by layer",
    **about: Unpack[About],
) -> Figure:
    """Relative residuals after every layer, on a logarithmic scale; curves may end early."""
    layers, kinds = range(max(map(len, series.values()))), {"dashed": dashed, "dotted": dotted}
    known: dict[str, Any] = {"y": "relative residual", "log": True, "lowest": _LOWEST, **kinds}
    return lines(title, layers, series, **known, **about)


def by_head(
    title: str,
    values: Sequence[Sequence[Number]],
    *,
    what: str,
    across: str = "head",
    **about: Unpack[About],
) -> Figure:
    """A map: a row for each layer, the first on top, a column for each head."""
    rows = ("layer", list(range(1, len(values) + 1)))
    columns = across, list(range(1, max(map(len, values)) + 1))
    return heat_map(title, rows, columns, values, what=what, **about)


def heat_map(
    title: str,
    rows: tuple[str, Sequence[int | str]],
    columns: tuple[str, Sequence[int | str]],
    values: Sequence[Sequence[Number]],
    *,
    what: str,
    look: Mapping[str, Any] | None = None,
    **about: Unpack[About],
) -> Figure:
    """A map with a row and a column for each number or name, the first row on top.

    `look` replaces what a trace of plotly says of colours, limits, or texts in cells.
    """
    wide = len(columns[1])
    gap = 1 if wide <= 24 else 0  # on a phone cells of so many are not wider than gaps
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": list(columns[1]),
        "y": list(rows[1]),
        "z": [list(row) for row in values],
        "colorscale": "@sequential",
        "xgap": gap,
        "ygap": gap,
        "colorbar": {"title": {"text": what}, "thickness": 12},
        "hovertemplate": f"{rows[0]} %{{y}}, {columns[0]} %{{x}}: %{{z:.3g}}<extra></extra>",
        **(look or {}),
    }
    layout = {
        "xaxis": axis(columns[0], **_ticks(columns[1])),
        "yaxis": axis(rows[0], autorange="reversed", **_ticks(rows[1])),
    }
    cells = tuple((name, *row) for name, row in zip(rows[1], values, strict=True))
    names = (rows[0], *(f"{columns[0]} {number}" for number in columns[1]))
    numeric = (not isinstance(rows[1][0], str), *(True,) * wide)
    table = Table(f"{title}: {what}", names, cells, numeric)
    about.setdefault("height", max(240, min(460, 110 + 26 * len(values))))
    return figure(title, [trace], layout, table, **about)


def _ticks(names: Sequence[int | str]) -> dict[str, Any]:
    if not isinstance(names[0], str):
        return whole_ticks(len(names))
    return {"type": "category", **({"dtick": 1} if len(names) <= 10 else {})}


def ratio_axis(values: Sequence[Number]) -> dict[str, Any]:
    """An axis for ratios: logarithmic, or from zero if no two values are far apart.

    >>> [ratio_axis([1, low]).get("type", "linear") for low in (0.8, 0.1, 1e-6)]
    ['linear', 'log', 'log']
    """
    known = [value for value in values if value is not None and value > 0]
    span = max(known) / min(known) if known else 1.0
    if span < 4:  # a logarithmic axis would have one number or none
        return {"rangemode": "tozero", "tickformat": "~g"}
    if span <= 100:
        return {"type": "log", "dtick": "D2", "tickformat": "~g"}
    return {"type": "log", "exponentformat": "power", "dtick": 1 if span < 1e12 else 5}


def whole_ticks(count: int) -> dict[str, Any]:
    """Ticks at whole numbers only, not too many."""
    apart = 1 if count <= 16 else -(-count // 9)
    return {"dtick": apart, "tick0": 0, "tickformat": "d", "tickangle": 0}
