"""The pictures of `slices` as interactive pages (plotly, self-contained)."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

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
from segre.report.page.figure import plain_words

_HEIGHT = 720


def cone_page(cone: Cone) -> Any:
    """The Segre cone: linear section and affine section."""
    figure = make_subplots(
        1,
        2,
        specs=[[{"type": "scene"}] * 2],
        subplot_titles=[CONE["linear"], CONE["affine"]],
    )
    for column, (x, y, z) in enumerate((cone.cone, cone.quadric), 1):
        surface = go.Surface(x=x, y=y, z=z, opacity=0.75, showscale=False, colorscale="Blues")
        figure.add_trace(surface, 1, column)
    for lines, colour in ((cone.rulings_V, BLUE), (cone.rulings_A, ORANGE)):
        for x, y, z in lines:
            line = go.Scatter3d(x=x, y=y, z=z, mode="lines", line={"color": colour})
            figure.add_trace(line, 1, 2)
    vertex = go.Scatter3d(
        x=[0],
        y=[0],
        z=[0],
        mode="markers+text",
        text=["zero function"],
        textposition="middle right",
        marker={"color": RED, "size": 5},
    )
    figure.add_trace(vertex, 1, 1)
    for column, names in enumerate((CONE["linear axes"], CONE["affine axes"]), 1):
        axes = dict(zip(("xaxis_title", "yaxis_title", "zaxis_title"), names, strict=True))
        figure.update_scenes(axes, row=1, col=column)
    figure.update_layout(title=CONE["title"], showlegend=False, height=_HEIGHT)
    return figure


def discriminant_page(cut: Discriminant) -> Any:
    """Products of two linear forms, their boundary, and points by stratum."""
    reach = reach_of(cut)
    figure = go.Figure()
    figure.add_trace(
        go.Scatter(
            x=[-reach, reach, reach, -reach, -reach],
            y=[-reach, -reach, reach, reach, -reach],
            fill="toself",
            fillcolor="#dce8f5",
            line={"width": 0},
            mode="lines",
            name=DISCRIMINANT["outside"],
            hoverinfo="skip",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=cut.wall[0],
            y=cut.wall[1],
            fill="toself",
            fillcolor="white",
            line={"color": RED, "width": 3},
            mode="lines",
            name=DISCRIMINANT["wall"],
            hoverinfo="skip",
        )
    )
    inside = DISCRIMINANT["inside"].replace(": ", ":<br>").replace(", ", ",<br>")
    figure.add_annotation(x=0, y=0, text=inside, showarrow=False, font={"size": 11})
    for point in cut.placed:
        figure.add_trace(
            go.Scatter(
                x=[point.x],
                y=[point.y],
                mode="markers+text",
                text=[plain_words(point.label)],
                textposition="top right",
                marker={"size": 12, "color": point_colour(point)},
                name=plain_words(f"{point.label}: {point_words(point)}"),
            )
        )
    figure.update_layout(
        title=DISCRIMINANT["title"],
        xaxis_title=DISCRIMINANT["x"],
        yaxis_title=DISCRIMINANT["y"],
        plot_bgcolor="white",
        legend={"orientation": "h", "y": -0.15},
        height=_HEIGHT,
    )
    figure.update_xaxes(range=[-reach, reach], zeroline=False, constrain="domain")
    figure.update_yaxes(range=[-reach, reach], scaleanchor="x", zeroline=False)
    return figure


def fiber_page(curve: FiberCurve) -> Any:
    """A closed curve of weights beside the outputs, which stay constant."""
    figure = make_subplots(
        1,
        2,
        specs=[[{"type": "scene"}, {"type": "xy"}]],
        subplot_titles=["three of the weights along the fiber", fiber_outputs(curve)],
    )
    x, y, z = curve.curve.T
    style = {"color": curve.parameter, "colorscale": "HSV", "width": 7}
    figure.add_trace(go.Scatter3d(x=x, y=y, z=z, mode="lines", line=style), 1, 1)
    for output in curve.outputs.T:
        figure.add_trace(go.Scatter(x=curve.parameter, y=output, mode="lines"), 1, 2)
    names = dict(zip(("xaxis_title", "yaxis_title", "zaxis_title"), curve.names, strict=True))
    figure.update_scenes(names)
    title = plain_words(f"One function, many weights: {curve.spec}")
    figure.update_layout(title=title, showlegend=False, height=_HEIGHT)
    figure.update_xaxes(title="position on the curve s", row=1, col=2)
    figure.update_yaxes(title="outputs at two inputs", row=1, col=2)
    return figure
