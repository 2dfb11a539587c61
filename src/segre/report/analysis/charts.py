"""The three kinds of plots of a report: bars, lines over layers, and maps of layers and heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from segre.report.page.blocks import Cell, Figure, Table

Number = float | int | None


def bars(
    key: str,
    title: str,
    alt: str,
    takeaway: str,
    values: Mapping[str, Number],
    *,
    unit: str,
    numbers: Table | None = None,
    note: str = "",
) -> Figure:
    """Horizontal bars, the first on top."""
    names = list(values)
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": names[::-1],
        "x": [values[name] for name in names[::-1]],
        "marker": {"color": "@1"},
        "hovertemplate": "%{y}: %{x:,}<extra></extra>",
    }
    rows = tuple((name, value) for name, value in values.items())
    table = numbers or Table(f"{key}-numbers", title, ("piece", unit), rows, (False, True))
    layout = {
        "xaxis": {
            "title": {"text": unit},
            "rangemode": "tozero",
            "tickformat": "~s",
            "nticks": 6,
        },
        "yaxis": {"automargin": True, "ticklabelstandoff": 6, "dtick": 1},
        "showlegend": False,
        "bargap": 0.35,
    }
    return Figure(key, title, alt, takeaway, (trace,), layout, table, 90 + 30 * len(names), note)


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
    layers: Sequence[int],
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
) -> Figure:
    """One line for each series, over layers."""
    traces = tuple(
        {
            "type": "scatter",
            "mode": "lines+markers",
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
    layout = {
        "xaxis": {"title": {"text": first}, **whole_ticks(len(layers))},
        "yaxis": {"title": {"text": y}, **scale},
        "showlegend": len(series) > 1,
    }
    return Figure(key, title, alt, takeaway, traces, layout, table, height, note)


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


def whole_ticks(count: int) -> dict[str, Any]:
    """Ticks at whole numbers only, not too many."""
    apart = 1 if count <= 16 else -(-count // 9)
    return {"dtick": apart, "tick0": 0, "tickformat": "d", "tickangle": 0}
