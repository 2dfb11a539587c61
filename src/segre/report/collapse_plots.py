"""Plots of rank against depth, and of paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from segre.analysis.part import percent
from segre.collapse.commands import Depth, Paths
from segre.collapse.curves import Curve, Curves
from segre.collapse.mechanisms import MechanismStudy
from segre.collapse.study import Study, medians
from segre.fields.interface import Array
from segre.report.blocks import Figure, Table
from segre.report.charts import Number, by_head, columns, lines, residuals
from segre.report.collapse import table_of_paths
from segre.report.views import drawn


@drawn.register
def plots_of_depth(depth: Depth) -> Iterator[Figure]:
    """Residuals by layer: of a random stack, or of a model and its variants."""
    found = depth.found
    if isinstance(found, Study):
        yield from _study(found)
    elif isinstance(found, MechanismStudy):
        yield from _mechanisms(found)
    else:
        yield _curves(found)


def _known(values: Array) -> list[Number]:
    return [float(value) if np.isfinite(value) else None for value in values]


def _curves(found: Curves) -> Figure:
    """Relative residuals by layer, one line for each variant, with spreads."""
    series: dict[str, list[Number]] = {}
    left_out: dict[str, list[Number]] = {}
    for curve in found.curves:
        series[curve.variant.words] = _known(10.0 ** np.maximum(curve.log10, -300))
        if curve.sink is not None:
            name = f"{curve.variant.words}, without {curve.sink.name}"
            left_out[name] = _known(curve.mean("without"))
    bare = [curve.variant.words for curve in found.curves if not curve.variant.norm]
    model = found.model
    floored = any(curve.floored is not None for curve in found.curves)
    figure = residuals(
        "depth",
        f"{model['model']}, {model['weights']} weights",
        "",
        {**series, **left_out},
        dashed=bare,
        dotted=list(left_out),
        note=f"Below {found.floor:.1e}: the first input, beyond single precision." * floored,
    )
    bands = tuple(_band(curve, number) for number, curve in enumerate(found.curves))
    return replace(figure, traces=(*figure.traces, *bands))


def _band(curve: Curve, number: int) -> dict[str, object]:
    """The spread over inputs, as far as single precision goes."""
    values = curve.values["relative"][: curve.floored]
    layers = list(range(len(values)))
    low, high = _known(values.min(axis=-1)), _known(values.max(axis=-1))
    return {
        "type": "scatter",
        "x": [*layers, *layers[::-1]],
        "y": [*low, *high[::-1]],
        "fill": "toself",
        "fillcolor": f"@{1 + number % 8}/0.2",
        "line": {"color": f"@{1 + number % 8}", "width": 0},
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _study(found: Study) -> Iterator[Figure]:
    """Logarithms of residuals by layer, and the ratios that tend to 3."""
    other = "without skips" if found.skip else "with skips"
    series = {
        "measured": _known(medians(found.own.residual)),
        "one step": [None, *_known(medians(found.bounds.step))],
        "theorem": [None, *_known(medians(found.bounds.theorem))],
    }
    if found.other is not None:
        series[other] = _known(medians(found.other.residual))
    layers = range(found.layers + 1)
    logs = "log10 of the residual"
    alt = "Decimal logarithms of residuals after every layer, with two bounds."
    bounds = ("one step",), ("theorem",)
    yield lines(
        "residuals",
        f"Residuals of {found.spec}",
        alt,
        "",
        layers,
        series,
        y=logs,
        log=False,
        dashed=bounds[0],
        dotted=bounds[1],
    )
    orders = _known(medians(found.own.orders)) if found.layers > 1 else []
    yield lines(
        "orders",
        "Order: ratio of consecutive steps of the logarithm",
        "The order of every layer, which tends to 3.",
        "",
        layers,
        {"measured": [None, None, *orders][: len(layers)], "3": [3.0] * len(layers)},
        y="order",
        log=False,
        span=(0, 4),
        dotted=("3",),
    )


def _mechanisms(found: MechanismStudy) -> Iterator[Figure]:
    """Logarithms of relative residuals by layer, and the exponent of every layer."""
    layers = range(found.layers + 1)
    yield lines(
        "residuals",
        f"Residuals of {found.spec}",
        "Decimal logarithms of relative residuals after every layer.",
        "",
        layers,
        {"relative": _known(np.median(found.relative, axis=0))},
        y="log10 of the relative residual",
        log=False,
    )
    measured: list[Number] = [None, *(step.relative for step in found.steps)]
    expected: list[Number] = [None, *(step.expected for step in found.steps)]
    yield lines(
        "exponents",
        "Exponent for nearly equal tokens",
        "The exponent of every layer: measured, and from the properties of the mechanisms.",
        "",
        layers,
        {"from properties": expected, "measured": measured},
        y="exponent",
        log=False,
        span=(-0.3, 3.5),
        dotted=("from properties",),
    )


@drawn.register
def plots_of_paths(found: Paths) -> Iterator[Figure]:
    """Shares of the output by length and of biases, numbers of paths, and a map of heads."""
    shares = [float(np.mean(share)) for share in found.sums.shares]
    through = [own.reshape(len(own), -1).mean(axis=1).tolist() for own in found.heads.shares]
    bias = float(np.mean(found.sums.bias_share))
    yield by_length(shares, found.sums.counts, bias, table_of_paths(found))
    yield through_heads(through)


def by_length(
    shares: Sequence[float], counts: Sequence[int], bias: float, numbers: Table, takeaway: str = ""
) -> Figure:
    """Shares of the output by the length of paths and of biases, beside shares of all paths."""
    lengths = [length for length, count in enumerate(counts) if count]
    names = [*map(str, lengths), "biases"]
    values = [*(shares[length] for length in lengths), bias]
    total = sum(counts)
    figure = columns(
        "paths-by-length",
        "Shares of the output, by length of paths",
        "Shares of the output by the length of paths: "
        + ", ".join(f"{name} {_percent(x)}" for name, x in zip(names, values, strict=True))
        + ".",
        takeaway,
        ("length", names),
        ("share of the output", values),
        numbers=numbers,
        note="Shares add up to one. A share below zero, or above one, means that terms cancel each "
        "other. Length 0 is what goes past all heads, through skips, MLPs and norms; biases are "
        "carried by no path. The line is the share of all paths that have this length.",
    )
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "share of all paths",
        "x": names[:-1],
        "y": [counts[length] / total for length in lengths],
        "line": {"color": "@2"},
    }
    own = {**figure.traces[0], "name": "share of the output"}
    return replace(figure, traces=(own, line), layout={**figure.layout, "showlegend": True})


def through_heads(through: Sequence[Sequence[float]], takeaway: str = "", said: str = "") -> Figure:
    """The share of the output of all paths through each head."""
    flat = [value for row in through for value in row]
    return by_head(
        "paths-through-heads",
        "Share of the output through each head",
        "Shares of the output of all paths through a head, "
        f"from {_percent(min(flat))} to {_percent(max(flat))}.",
        takeaway,
        through,
        what="share",
        note="A cell is the share of all paths that go through that head. In each layer, the "
        f"shares of its heads, of the paths past it and of the biases add up to one.{said}",
    )


def _percent(value: float) -> str:
    return "not known" if value != value else percent(value, 1, 1)
