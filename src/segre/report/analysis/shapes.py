"""Two pictures of the geometry: a whole with its parts, and a closed curve of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from segre.report.page.blocks import Cell, Figure, Table


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
    traces = []
    for place, (name, pieces) in enumerate((whole, part)):
        total = sum(pieces.values())
        for number, (piece, count) in enumerate(pieces.items()):
            rows.append((name, piece, count, 100 * count / total))
            colour = number if not place else number + len(whole[1])
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": piece,
                    "y": [name],
                    "x": [100 * count / total],
                    "customdata": [count],
                    "marker": {"color": f"@{1 + colour % 8}"},
                    "hovertemplate": f"{piece}: %{{customdata:,}} {unit} (%{{x:.3~g}} %)"
                    "<extra></extra>",
                }
            )
    table = Table(
        f"{key}-numbers",
        title,
        ("of", "piece", unit, "share in %"),
        tuple(rows),
        (False, False, True, True),
    )
    layout = {
        "barmode": "stack",
        "margin": {"r": 28},
        "xaxis": {"title": {"text": "share"}, "range": [0, 100.5], "ticksuffix": " %", "dtick": 25},
        "yaxis": {"automargin": True, "ticklabelstandoff": 6, "autorange": "reversed"},
        "bargap": 0.45,
        "showlegend": True,
    }
    return Figure(key, title, alt, takeaway, tuple(traces), layout, table, 190, note)


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
