"""Rank against depth: residuals by layer, in numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from segre.collapse.commands import Depth
from segre.collapse.curves import Curve, Curves
from segre.collapse.mechanisms import MechanismStudy
from segre.collapse.streams import DOMINANT
from segre.collapse.study import Study
from segre.fields.interface import Array
from segre.report.blocks import Blocks, Say, Table, Tile, Title
from segre.report.depth import logs_of, plots
from segre.report.views import data, on_page, tiles, view
from segre.values import counted, from_logarithm

_ROWS = 14


@view
def of_depth(depth: Depth) -> Blocks:
    """The numbers by layer, then the verdict in words."""
    found = depth.found
    last = "not measured" if depth.value is None else power(depth.value)
    name = str(found.model["model"]) if isinstance(found, Curves) else found.spec
    yield Title(name, terminal=False)
    yield tiles(Tile("residual after the last layer", last, depth.status, depth.how))
    if isinstance(found, Study):
        yield from _study(found)
    elif isinstance(found, MechanismStudy):
        yield from _mechanisms(found)
    else:
        yield from _curves(found)
    yield from map(Say, depth.advice)
    yield data([logs_of(found)])
    yield on_page(plots(found))


def _curves(found: Curves) -> Blocks:
    """Mean relative residuals by layer and variant."""
    model, inputs = found.model, found.inputs
    yield Say(
        f"{model['model']}: {counted(model['layers'], 'layer')}, "
        f"{counted(model['heads'], 'head')}, width "
        f"{model['width']}, {model['weights']} weights; {counted(inputs['count'], 'input')} of "
        f"{inputs['length']} tokens",
        wrap=False,
    )
    yield Say("relative residual, mean over inputs (last line: its spread after the last layer):")
    rows = [
        (str(layer), *(_cell(curve, layer, found.floor) for curve in found.curves))
        for layer in shown_layers(found.layers)
    ]
    spreads = ("" if curve.floored else number(curve.spread()[-1]) for curve in found.curves)
    rows.append(("+-", *spreads))
    if found.fuse is not None:
        fused = (curve.fused for curve in found.curves)
        means = ("" if one is None else number(float(one.mean())) for one in fused)
        rows.append((found.fuse, *means))
    yield numbers_table(("layer", *(_short(str(x.variant)) for x in found.curves)), rows)
    if found.fuse is not None:
        yield Say(f"{found.fuse}: the streams of all layers, fused")
    floored = [curve for curve in found.curves if curve.floored is not None]
    if floored:
        said = f"Below {number(found.floor)}, single precision shows only rounding errors."
        if any(curve.past is not None for curve in floored):
            said += " Numbers below it are of the first input, with mean and residual "
            said += "computed separately."
        if any(curve.past is None for curve in floored):
            said += " A curve ends (<) where the layers do not allow that."
        yield Say(said)
    yield from _sinks(found)


def numbers_table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    """A table of numbers that are written already, aligned to the right."""
    return Table("", names, tuple(rows), (True,) * len(names))


def _cell(curve: Curve, layer: int, floor: float) -> str:
    """A mean; below the floor, what is known there."""
    if curve.floored is None or layer < curve.floored:
        return number(curve.mean()[layer])
    if curve.past is None:
        return f"<{number(floor)}"
    return power(float(curve.past[layer]))


def _sinks(found: Curves) -> Blocks:
    """The curves without the tokens that dominate them."""
    shown = [(curve, curve.sink) for curve in found.curves if curve.sink is not None]
    if not shown:
        return
    for name in dict.fromkeys(sink.name for _, sink in shown):
        yield Say(
            f"{name[0].upper()}{name[1:]} dominates (in brackets: its norm over the median norm "
            "of tokens). Residuals with it, and without it where it dominates:"
        )
    names = [heading for curve, _ in shown for heading in (_short(str(curve.variant)), "without")]
    rows = []
    for layer in shown_layers(found.layers):
        cells = []
        for curve, _ in shown:
            factor, known = curve.mean("factor")[layer], curve.lost is None or layer < curve.lost
            bracket = f" ({factor:.0f})" if known and factor >= DOMINANT else ""
            without = number(curve.mean("without")[layer]) if bracket else ""
            cells += [_cell(curve, layer, found.floor) + bracket, without]
        rows.append((str(layer), *cells))
    yield numbers_table(("layer", *names), rows)


def shown_layers(layers: int) -> list[int]:
    """All layers; if there are many, the first ones and then evenly spaced ones.

    >>> shown_layers(12)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    >>> shown_layers(30)[-3:]
    [24, 27, 30]
    """
    if layers < _ROWS:
        return list(range(layers + 1))
    later = np.linspace(5, layers, _ROWS - 5).round().astype(int).tolist()
    return [0, 1, 2, 3, 4, *later]


def _short(name: str) -> str:
    """One part on each line, so that eight columns fit."""
    short = name.replace("attention", "attn").replace("+", "\n+").replace("-norm", "\n-norm")
    return short.replace(":", "\n:").replace("=", "\n=")


def number(value: float) -> str:
    """A number with two or three digits; - if it is not finite."""
    if not np.isfinite(value):
        return "-"
    if value == 0 or 0.01 <= value < 1000:
        return f"{value:.3f}" if value else "0"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def power(log: float) -> str:
    """A number of a table by its decimal logarithm, which may be far below the smallest float.

    >>> power(-0.5), power(-165.2), power(-8257.75)
    ('0.316', '6.3e-166', '1.8e-8258')
    """
    return number(10**log) if log > -4 or not np.isfinite(log) else from_logarithm(log)


def _study(found: Study) -> Blocks:
    """Residuals of a random stack as decimal logarithms, with rates and bounds."""
    inputs = counted(found.inputs, "input")
    yield Say(f"{found.spec}: random weights (seed {found.seed}), {inputs}", wrap=False)
    yield Say("decimal logarithms of residuals, medians over inputs:")
    own, bound = found.own, found.bounds
    columns = {  # their values, and the layer that the first of these is of
        "residual": (own.residual, 0),
        "relative": (own.relative, 0),
        "exponent": (own.exponents, 1),
        "order": (own.orders, 2),
        "step": (bound.step, 1),
        "theorem": (bound.theorem, 1),
    }
    if found.other is not None:
        columns["no skip" if found.skip else "skip"] = found.other.relative, 0
    certified = ["certified"] * (found.certified is not None)
    rows = []
    for layer in shown_layers(found.layers):
        cells = [_median(values, layer - first) for values, first in columns.values()]
        cells += [] if found.certified is None else [f"{found.certified[layer]:.4f}"]
        rows.append((str(layer), *cells))
    yield numbers_table(("layer", *columns, *certified), rows)
    yield Say(
        "exponent: ratio of consecutive logarithms; order: ratio of consecutive steps (3 if every "
        "layer cubes the residual); step, theorem: the bounds"
    )


def _median(values: Array, place: int) -> str:
    """The median of a column, as far as it is known; nothing if there is no such column."""
    if not 0 <= place < values.shape[-1]:
        return ""
    known = values[..., place][np.isfinite(values[..., place])]
    return f"{np.median(known):.2f}" if known.size else "-"


def _mechanisms(found: MechanismStudy) -> Blocks:
    """Residuals of a random stack as decimal logarithms, and the exponent of every layer."""
    yield Say(
        f"{found.spec}: random weights (seed {found.seed}), {counted(found.inputs, 'input')}, in "
        f"certified arithmetic with {found.bits} bits",
        wrap=False,
    )
    yield Say("decimal logarithms of residuals, medians over inputs:")
    rows = []
    for layer in shown_layers(found.layers):
        cells = ["", "", ""]
        if layer:
            step, order = found.steps[layer - 1], found.orders[layer - 1]
            expected = "zero" if step.expected is None else str(step.expected)
            exponent = f"{order:.2f}" if np.isfinite(order) else "-"
            cells = [exponent, f"{step.relative:.2f}", expected]
        sizes = (np.median(values[:, layer]) for values in (found.residual, found.relative))
        rows.append((str(layer), *(f"{size:.2f}" for size in sizes), *cells))
    names = ("layer", "residual", "relative", "exponent", "near alike", "expected")
    yield numbers_table(names, rows)
    yield Say(
        "exponent: ratio of consecutive logarithms of the relative residual; near alike: measured "
        "power p such that tokens that differ by eps have a relative residual of order eps^p "
        "after the layer; expected: this power according to the properties of the "
        "mechanisms"
    )
