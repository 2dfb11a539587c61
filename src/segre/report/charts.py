"""The kinds of plots: bars, lines, maps of layers and heads, a whole with its parts, a curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from segre.report.blocks import Cell, Figure, Table

Number = float | int | None
_LOWEST = 1e-30  # smaller residuals are in the table only


def bars(
    key: str,
    title: str,
    alt: str,
    takeaway: str,
    names: Sequence[str],
    pieces: Mapping[str, Sequence[Number]],
    *,
    unit: str,
    words: Sequence[str] = (),
    rest: str = "",
    numbers: Table | None = None,
    note: str = "",
) -> Figure:
    """A horizontal bar for each name, the first on top, made of pieces.

    In pictures, `words` stand beside the bars; the piece called `rest` is grey.
    """
    beside = {"text": list(words), "textposition": "none"} if words else {}
    traces = tuple(
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
    )
    rows = tuple(
        (name, *(values[n] for values in pieces.values()), *words[n : n + 1])
        for n, name in enumerate(names)
    )
    table = numbers or Table(f"{key}-numbers", title, ("", *pieces, *[""] * bool(words)), rows)
    large = max((x or 0 for values in pieces.values() for x in values), default=0) > 1000
    layout = {
        "barmode": "stack",
        "xaxis": {
            "title": {"text": unit},
            "rangemode": "tozero",
            "nticks": 6,
            "tickformat": "~s" if large else "",
        },
        "yaxis": {"automargin": True, "ticklabelstandoff": 6, "autorange": "reversed", "dtick": 1},
        "showlegend": len(pieces) > 1,
        "bargap": 0.35,
    }
    height = 90 + 30 * len(names) + 40 * (len(pieces) > 1)
    return Figure(key, title, alt, takeaway, traces, layout, table, height, note)


def columns(
    key: str,
    title: str,
    alt: str,
    takeaway: str,
    x: tuple[str, Sequence[int] | Sequence[str]],
    y: tuple[str, Sequence[Number]],
    *,
    numbers: Table,
    note: str = "",
) -> Figure:
    """Vertical bars over whole numbers, or over names."""
    ticks = _ticks(x[1])
    trace = {
        "type": "bar",
        "x": list(x[1]),
        "y": list(y[1]),
        "marker": {"color": "@1"},
        "hovertemplate": f"{x[0]} %{{x}}: %{{y:.4g}}<extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": x[0]}, **ticks},
        "yaxis": {
            "title": {"text": y[0]},
            "rangemode": "tozero",
            "tickformat": "~s" if max((value or 0 for value in y[1]), default=0) > 1000 else "",
        },
        "showlegend": False,
        "bargap": 0.25,
    }
    return Figure(key, title, alt, takeaway, (trace,), layout, numbers, 300, note)


def lines(
    key: str,
    title: str,
    alt: str,
    takeaway: str,
    layers: Sequence[float],
    series: Mapping[str, Sequence[Number]],
    *,
    y: str,
    log: bool,
    note: str = "",
    dashed: Sequence[str] = (),
    dotted: Sequence[str] = (),
    lowest: float = 0.0,
    first: str = "layer",
    height: int = 360,
    log_x: bool = False,
    span: tuple[float, float] | None = None,
    mode: str = "lines+markers",
) -> Figure:
    """One line for each series, over layers or other numbers."""
    traces = tuple(
        {
            "type": "scatter",
            "mode": mode,
            "name": name,
            "x": list(layers),
            "y": [value if not log or (value or 0) > lowest else None for value in values],
            "line": {
                "color": f"@{1 + number % 8}",
                "width": 2,
                "dash": "dot" if name in dotted else "dash" if name in dashed else "solid",
            },
            "marker": {"size": 5, "symbol": number % 8},
            "hovertemplate": f"{name}, {first} %{{x}}: %{{y:.3g}}<extra></extra>",
        }
        for number, (name, values) in enumerate(series.items())
    )
    rows = tuple(
        (layer, *(values[place] for values in series.values()))
        for place, layer in enumerate(layers)
    )
    table = Table(f"{key}-numbers", title, (first, *series), rows, (True,) * (1 + len(series)))
    shown = [value for values in series.values() for value in values if (value or 0) > lowest]
    scale = ratio_axis(shown) if log else {}
    whole = all(float(place).is_integer() for place in layers)
    ticks = whole_ticks(len(layers)) if whole else {}
    ticks = {"type": "log", **named_ticks(layers)} if log_x else ticks
    layout = {
        "xaxis": {"title": {"text": first}, **ticks},
        "yaxis": {"title": {"text": y}, **scale, **({} if span is None else {"range": list(span)})},
        "showlegend": len(series) > 1,
    }
    return Figure(key, title, alt, takeaway, traces, layout, table, height, note)


def residuals(
    key: str,
    title: str,
    takeaway: str,
    series: Mapping[str, Sequence[Number]],
    *,
    dashed: Sequence[str] = (),
    dotted: Sequence[str] = (),
    note: str = "",
) -> Figure:
    """Relative residuals after every layer, on a logarithmic scale; curves may end early."""
    longest = max(map(len, series.values()))
    alt = "The relative residual after every layer, on a logarithmic scale: "
    alt += "; ".join(f"{name} ends at {_end(values)}" for name, values in series.items())
    return lines(
        key,
        title,
        f"{alt}.",
        takeaway,
        range(longest),
        {name: [*own, *[None] * (longest - len(own))] for name, own in series.items()},
        y="relative residual",
        log=True,
        dashed=dashed,
        dotted=dotted,
        lowest=_LOWEST,
        note=note,
    )


def _end(values: Sequence[Number]) -> str:
    return "no number" if values[-1] is None else f"{values[-1]:.2g}"


def by_head(
    key: str,
    title: str,
    alt: str,
    takeaway: str,
    values: Sequence[Sequence[Number]],
    *,
    what: str,
    note: str = "",
    across: str = "head",
) -> Figure:
    """A map: a row for each layer, the first on top, a column for each head."""
    wide = max(len(row) for row in values)
    rows = ("layer", list(range(1, len(values) + 1)))
    columns = across, list(range(1, wide + 1))
    return heat_map(key, title, alt, takeaway, rows, columns, values, what=what, note=note)


def heat_map(
    key: str,
    title: str,
    alt: str,
    takeaway: str,
    rows: tuple[str, Sequence[int | str]],
    columns: tuple[str, Sequence[int | str]],
    values: Sequence[Sequence[Number]],
    *,
    what: str,
    note: str = "",
) -> Figure:
    """A map with a row and a column for each number or name, the first row on top."""
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
    }
    layout = {
        "xaxis": {"title": {"text": columns[0]}, **_ticks(columns[1])},
        "yaxis": {"title": {"text": rows[0]}, "autorange": "reversed", **_ticks(rows[1])},
    }
    cells: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *row) for name, row in zip(rows[1], values, strict=True)
    )
    names = (rows[0], *(f"{columns[0]} {number}" for number in columns[1]))
    numeric = (not isinstance(rows[1][0], str), *(True,) * wide)
    table = Table(f"{key}-numbers", f"{title}: {what}", names, cells, numeric)
    height = max(240, min(460, 110 + 26 * len(values)))
    return Figure(key, title, alt, takeaway, (trace,), layout, table, height, note)


def _ticks(names: Sequence[int | str]) -> dict[str, Any]:
    if not isinstance(names[0], str):
        return whole_ticks(len(names))
    return {"type": "category", **({"dtick": 1} if len(names) <= 10 else {})}


def switched(
    key: str, title: str, alt: str, takeaway: str, maps: Mapping[str, Figure], numbers: Table
) -> Figure:
    """Several maps of the same layers and heads as one, with a switch between them."""
    figures = list(maps.values())
    traces = tuple(
        {**figure.traces[0], "visible": number == 0, "name": name}
        for number, (name, figure) in enumerate(maps.items())
    )
    layout = {**figures[0].layout, "meta": {"one_at_a_time": "Measure"}, "showlegend": False}
    return Figure(key, title, alt, takeaway, traces, layout, numbers, figures[0].height)


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


def named_ticks(values: Sequence[float]) -> dict[str, Any]:
    """Ticks at these numbers, if they are few."""
    few = list(values) if len(values) <= 10 else []
    return {"tickvals": few, "ticktext": [f"{value:,}" for value in few]} if few else {}


def whole_ticks(count: int) -> dict[str, Any]:
    """Ticks at whole numbers only, not too many."""
    apart = 1 if count <= 16 else -(-count // 9)
    return {"dtick": apart, "tick0": 0, "tickformat": "d", "tickangle": 0}


def parts_of_a_whole(
    key: str,
    title: str,
    alt: str,
    takeaway: str,
    whole: tuple[str, Mapping[str, int]],
    part: tuple[str, Mapping[str, int]],
    *,
    unit: str,
    note: str = "",
) -> Figure:
    """Two bars, each split up: a whole, and below it a part of that, enlarged to its width."""
    rows: list[tuple[Cell, ...]] = []
    shares: dict[str, list[Number]] = {}
    for place, (name, pieces) in enumerate((whole, part)):
        total = sum(pieces.values())
        for piece, count in pieces.items():
            rows.append((name, piece, count, 100 * count / total))
            shares.setdefault(piece, [None, None])[place] = 100 * count / total
    table = Table(f"{key}-numbers", title, ("of", "piece", unit, "share in %"), tuple(rows))
    names = (whole[0], part[0])
    words = (key, title, alt, takeaway)
    figure = bars(*words, names, shares, unit="share", numbers=table, note=note)
    axis = {"title": {"text": "share"}, "range": [0, 100.5], "ticksuffix": " %", "dtick": 25}
    layout = {**figure.layout, "margin": {"r": 28}, "xaxis": axis, "bargap": 0.45}
    return replace(figure, layout=layout, height=190)


def closed_curve(
    key: str,
    title: str,
    alt: str,
    takeaway: str,
    names: tuple[str, str],
    points: Sequence[Sequence[float]],
    start: str,
    *,
    note: str = "",
) -> Figure:
    """A closed curve in the plane, and where it starts."""
    x, y = ([point[place] for point in points] for place in (0, 1))
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": "weights with the same function",
        "x": x,
        "y": y,
        "line": {"color": "@1", "width": 3},
        "hoverinfo": "skip",
    }
    mark = {
        "type": "scatter",
        "mode": "markers",
        "name": start,
        "x": x[:1],
        "y": y[:1],
        "marker": {"color": "@2", "size": 11},
        "hovertemplate": f"{start}<extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": names[0]}, "constrain": "domain"},
        "yaxis": {"title": {"text": names[1]}, "scaleanchor": "x", "constrain": "domain"},
        "showlegend": True,
    }
    rows = tuple((number, one, two) for number, (one, two) in enumerate(zip(x, y, strict=True)))
    table = Table(f"{key}-numbers", title, ("step", *names), rows, (True, True, True))
    return Figure(key, title, alt, takeaway, (line, mark), layout, table, 280, note)
