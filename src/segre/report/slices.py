"""Slices of function spaces, and fibers: surfaces and curves to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from segre.fields.interface import Array
from segre.geometry.slices import Cone, Discriminant, FiberCurve, Placed
from segre.report.blocks import Block, Blocks, Figure, Row, Table, Title
from segre.report.charts import About, axis, figure, lines
from segre.report.views import measured, on_page, view

_STRATA = {"fold": "@4", "crossing sheets": "@2", "rank drop of A": "@5", "smooth": "@3"}
_CONE = (("z11 - z22", "2 z12", "z11 + z22"), ("z11 - z22", "z12 + z21", "z12 - z21"))
_WALL = ("(a - c) / (a + c)", "b / (a + c)")


@view
def of_cone(cone: Cone) -> Blocks:
    """The cone over the Segre variety in two cuts."""
    vertex = {"mode": "markers+text", "text": ["zero function"], "textposition": "middle right"}
    origin = _curve(np.zeros((3, 1)), **vertex, marker={"color": "@4", "size": 5})
    rulings = [
        _curve(line, line={"color": colour, "width": 4})
        for lines, colour in ((cone.rulings_V, "@1"), (cone.rulings_A, "@2"))
        for line in lines
    ]
    linear = _solid(
        "The linear section z12 = z21",
        [_surface(cone.cone, 0.75), origin],
        _CONE[0],
        takeaway="Its vertex, the zero function, is singular.",
    )
    affine = _solid(
        "The affine section z11 + z22 = 1",
        [_surface(cone.quadric, 0.3), *rulings],
        _CONE[1],
        takeaway="It is ruled by lines of constant V (blue) and constant A (orange).",
    )
    title = "Functions of one attention layer, V ⊗ A: the cone over the Segre variety"
    yield from _shown(
        title, "Functions of one layer, in two slices of their space.", linear, affine
    )


@view
def of_discriminant(cut: Discriminant) -> Blocks:
    """Products of two linear forms, their boundary, and points by stratum."""
    reach = max([1.9, *(1.15 * max(abs(point.x), abs(point.y)) for point in cut.placed)])
    wall = {
        "mode": "lines",
        "name": "boundary b² = 4ac: the parametrisation folds",
        "x": cut.wall[0].tolist(),
        "y": cut.wall[1].tolist(),
        "fill": "toself",
        "fillcolor": "@faint/0.1",
        "line": {"color": "@4", "width": 3},
        "hoverinfo": "skip",
    }
    words = {
        0.0: "definite forms:<br>in the Zariski closure,<br>reached by no real weights",
        0.93 * reach: "products of two real linear forms, b² ≥ 4ac: reached",
    }
    notes = [{"x": 0, "y": y, "text": text, "showarrow": False} for y, text in words.items()]
    span: dict[str, Any] = {"range": [-reach, reach], "zeroline": False, "constrain": "domain"}
    layout = {
        "xaxis": axis(_WALL[0], **span),
        "yaxis": axis(_WALL[1], **span, scaleanchor="x"),
        "annotations": notes,
        "showlegend": True,
    }
    rows = tuple((point.label, point.x, point.y, _stratum(point)) for point in cut.placed)
    drawn = figure(
        "Quadratics (w·x)(k·x) = aX² + bXY + cY²",
        [wall, *map(_point, cut.placed)],
        layout,
        Table("Points", ("point", *_WALL, "stratum"), rows),
        height=620,
    )
    title = "d = 2, V = u wᵀ, A = k qᵀ, q fixed"
    yield from _shown(
        title, "Which quadratics one layer computes, and which it cannot reach.", drawn
    )


def _point(point: Placed) -> dict[str, Any]:
    """A point, in the colour of its stratum."""
    reasons = point.stratum.reasons
    kind = reasons[-1] if reasons else "fold" if point.stratum.boundary else "smooth"
    return {
        "mode": "markers+text",
        "name": f"{point.label}: {_stratum(point)}",
        "x": [point.x],
        "y": [point.y],
        "text": [point.label],
        "textposition": "top right",
        "marker": {"size": 12, "color": _STRATA[kind]},
    }


def _stratum(point: Placed) -> str:
    words = ", ".join(point.stratum.reasons) or "smooth"
    return words + ", boundary" * point.stratum.boundary


@view
def of_fiber(curve: FiberCurve) -> Blocks:
    """A closed curve of weights beside the outputs, which stay constant."""
    way = {"color": curve.parameter.tolist(), "colorscale": "HSV", "width": 7}
    weights = _solid(
        "Three of the weights along the fiber",
        [_curve(curve.curve.T, line=way)],
        curve.names,
        takeaway="The weights move along a closed curve.",
    )
    outputs = lines(
        "Outputs along the curve",
        curve.parameter.tolist(),
        {f"output {n}": output.tolist() for n, output in enumerate(curve.outputs.T, 1)},
        y="outputs at two inputs",
        first="position on the curve s",
        mode="lines",
        height=weights.height,
        takeaway=f"The outputs change by {curve.deviation:.0e}, which is rounding.",
    )
    yield from _shown(
        f"One function, many weights: {curve.spec}", "A curve on a fiber.", weights, outputs
    )


def _shown(title: str, lead: str, *figures: Figure) -> Blocks:
    block: Block = Row(figures) if len(figures) > 1 else figures[0]
    yield Title(title)
    yield on_page([measured("slice", "Drawn", lead, "", block)])


def _solid(
    title: str, traces: Sequence[dict[str, Any]], names: Sequence[str], **about: Unpack[About]
) -> Figure:
    """A figure in space: the names of its axes, and the ends of its curves as numbers."""
    scene = {f"{letter}axis": axis(name) for letter, name in zip("xyz", names, strict=True)}
    layout = {"scene": scene, "showlegend": False, "margin": {"l": 0, "r": 0, "t": 0, "b": 0}}
    numbers = Table("", tuple(names), tuple(_ends(traces)))
    return replace(figure(title, traces, layout, numbers, **about), height=520)


def _ends(traces: Sequence[dict[str, Any]]) -> Iterator[tuple[float, ...]]:
    for trace in traces:
        if trace["type"] == "scatter3d":
            points = list(zip(trace["x"], trace["y"], trace["z"], strict=True))
            yield from (points[0], points[-1])


def _surface(places: Sequence[Array], opacity: float) -> dict[str, Any]:
    named = {letter: values.tolist() for letter, values in zip("xyz", places, strict=True)}
    look = {"opacity": opacity, "showscale": False, "colorscale": "@sequential"}
    return {"type": "surface", "hoverinfo": "skip", **named, **look}


def _curve(places: Array, **look: Any) -> dict[str, Any]:
    named = {letter: list(map(float, one)) for letter, one in zip("xyz", places, strict=True)}
    return {"type": "scatter3d", "mode": "lines", "hoverinfo": "skip", **named, **look}
