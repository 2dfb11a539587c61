"""The pictures of `slices` as interactive pages (plotly.js, self-contained)."""

from __future__ import annotations

from typing import Any

from segre.geometry.slices import Cone, Discriminant, FiberCurve
from segre.report.captions import (
    BLUE,
    CONE,
    DISCRIMINANT,
    ORANGE,
    RED,
    fiber_outputs,
    point_colour,
    point_words,
    reach_of,
)
from segre.report.page.figure import WebFigure, plain_words, side_by_side

_HEIGHT = 720
_BLUES = [[0, "rgb(247,251,255)"], [0.5, "rgb(107,174,214)"], [1, "rgb(8,48,107)"]]
_WHEEL = ("#ff0000", "#ffa700", "#afff00", "#08ff00", "#00ff9f", "#00b7ff", "#0010ff", "#9700ff")
_CYCLE = [[place / 8, colour] for place, colour in enumerate((*_WHEEL, "#ff00bf"))]


def cone_page(cone: Cone) -> WebFigure:
    """The Segre cone: linear section and affine section."""
    figure = side_by_side([CONE["linear"], CONE["affine"]], solid=[1, 2])
    for panel, (x, y, z) in enumerate((cone.cone, cone.quadric), 1):
        look = {"opacity": 0.75, "showscale": False, "colorscale": _BLUES}
        figure.add("surface", panel, x=x, y=y, z=z, **look)
    for lines, colour in ((cone.rulings_V, BLUE), (cone.rulings_A, ORANGE)):
        for x, y, z in lines:
            figure.add("scatter3d", 2, x=x, y=y, z=z, mode="lines", line={"color": colour})
    figure.add(
        "scatter3d",
        x=[0],
        y=[0],
        z=[0],
        mode="markers+text",
        text=["zero function"],
        textposition="middle right",
        marker={"color": RED, "size": 5},
    )
    for panel, names in enumerate((CONE["linear axes"], CONE["affine axes"]), 1):
        figure.label(panel, **dict(zip("xyz", names, strict=True)))
    figure.layout |= {"title": {"text": CONE["title"]}, "showlegend": False, "height": _HEIGHT}
    return figure


def discriminant_page(cut: Discriminant) -> WebFigure:
    """Products of two linear forms, their boundary, and points by stratum."""
    reach = reach_of(cut)
    figure = WebFigure()
    area: dict[str, Any] = {"fill": "toself", "mode": "lines", "hoverinfo": "skip"}
    figure.add(
        "scatter",
        x=[-reach, reach, reach, -reach, -reach],
        y=[-reach, -reach, reach, reach, -reach],
        fillcolor="#dce8f5",
        line={"width": 0},
        name=DISCRIMINANT["outside"],
        **area,
    )
    figure.add(
        "scatter",
        x=cut.wall[0],
        y=cut.wall[1],
        fillcolor="white",
        line={"color": RED, "width": 3},
        name=DISCRIMINANT["wall"],
        **area,
    )
    for point in cut.placed:
        figure.add(
            "scatter",
            x=[point.x],
            y=[point.y],
            mode="markers+text",
            text=[plain_words(point.label)],
            textposition="top right",
            marker={"size": 12, "color": point_colour(point)},
            name=plain_words(f"{point.label}: {point_words(point)}"),
        )
    inside = DISCRIMINANT["inside"].replace(": ", ":<br>").replace(", ", ",<br>")
    axis = {"range": [-reach, reach], "zeroline": False}
    figure.layout |= {
        "title": {"text": DISCRIMINANT["title"]},
        "annotations": [{"x": 0, "y": 0, "text": inside, "showarrow": False, "font": {"size": 11}}],
        "xaxis": {**axis, "constrain": "domain"},
        "yaxis": {**axis, "scaleanchor": "x"},
        "plot_bgcolor": "white",
        "legend": {"orientation": "h", "y": -0.15},
        "height": _HEIGHT,
    }
    figure.label(1, x=DISCRIMINANT["x"], y=DISCRIMINANT["y"])
    return figure


def fiber_page(curve: FiberCurve) -> WebFigure:
    """A closed curve of weights beside the outputs, which stay constant."""
    figure = side_by_side(["three of the weights along the fiber", fiber_outputs(curve)], solid=[1])
    x, y, z = curve.curve.T
    style = {"color": curve.parameter, "colorscale": _CYCLE, "width": 7}
    figure.add("scatter3d", x=x, y=y, z=z, mode="lines", line=style)
    for output in curve.outputs.T:
        figure.add("scatter", 2, x=curve.parameter, y=output, mode="lines")
    figure.label(1, **dict(zip("xyz", curve.names, strict=True)))
    figure.label(2, x="position on the curve s", y="outputs at two inputs")
    title = plain_words(f"One function, many weights: {curve.spec}")
    figure.layout |= {"title": {"text": title}, "showlegend": False, "height": _HEIGHT}
    return figure
