"""Rank against depth, and paths."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from segre.collapse.commands import Depth, Paths, PathShares
from segre.collapse.curves import Curve, Curves
from segre.collapse.mechanisms import MechanismStudy
from segre.collapse.residual import norm, relative_residual
from segre.collapse.sinks import DOMINANT
from segre.collapse.study import Study, medians
from segre.fields.interface import Array
from segre.report.blocks import Block, Cell, Facts, Say, Table, Tile, Title, elsewhere
from segre.report.views import tabled, view
from segre.values import counted, from_logarithm

_ROWS = 14


@view.register
def of_depth(depth: Depth) -> Iterator[Block]:
    """The numbers by layer, then the verdict in words."""
    found = depth.found
    last = "not measured" if depth.value is None else power(depth.value)
    name = str(found.model["model"]) if isinstance(found, Curves) else found.spec
    yield Title(name, terminal=False)
    yield elsewhere(Facts((Tile("residual after the last layer", last, depth.status, depth.how),)))
    if isinstance(found, Study):
        yield from _study(found)
    elif isinstance(found, MechanismStudy):
        yield from _mechanisms(found)
    else:
        yield from _curves(found)
    yield from map(Say, depth.advice)


def _curves(found: Curves) -> Iterator[Block]:
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
    spreads = ("" if curve.floored else _number(curve.spread()[-1]) for curve in found.curves)
    rows.append(("+-", *spreads))
    if found.fuse is not None:
        fused = (curve.fused for curve in found.curves)
        means = ("" if one is None else _number(float(one.mean())) for one in fused)
        rows.append((found.fuse, *means))
    yield _table("residuals", ("layer", *(_short(str(x.variant)) for x in found.curves)), rows)
    if found.fuse is not None:
        yield Say(f"{found.fuse}: the streams of all layers, fused")
    floored = [curve for curve in found.curves if curve.floored is not None]
    if floored:
        said_of = [f"Below {_number(found.floor)}, single precision shows only rounding errors."]
        if any(curve.past is not None for curve in floored):
            said_of.append(
                "Numbers below it are of the first input, with mean and residual "
                "computed separately."
            )
        if any(curve.past is None for curve in floored):
            said_of.append("A curve ends (<) where the layers do not allow that.")
        yield Say(" ".join(said_of))
    yield from _sinks(found)


def _table(key: str, names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    return Table(key, "", names, tuple(rows), (True,) * len(names))


def _cell(curve: Curve, layer: int, floor: float) -> str:
    """A mean; below the floor, what is known there."""
    if curve.floored is None or layer < curve.floored:
        return _number(curve.mean()[layer])
    if curve.past is None:
        return f"<{_number(floor)}"
    return power(float(curve.past[layer]))


def _sinks(found: Curves) -> Iterator[Block]:
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
            without = _number(curve.mean("without")[layer]) if bracket else ""
            cells += [_cell(curve, layer, found.floor) + bracket, without]
        rows.append((str(layer), *cells))
    yield _table("sinks", ("layer", *names), rows)


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


def _number(value: float) -> str:
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
    return _number(10**log) if log > -4 or not np.isfinite(log) else from_logarithm(log)


def _study(found: Study) -> Iterator[Block]:
    """Residuals of a random stack as decimal logarithms, with rates and bounds."""
    inputs = counted(found.inputs, "input")
    yield Say(f"{found.spec}: random weights (seed {found.seed}), {inputs}", wrap=False)
    yield Say("decimal logarithms of residuals, medians over inputs:")
    names = ["layer", "residual", "relative", "exponent", "order", "step", "theorem"]
    names += [] if found.other is None else ["no skip" if found.skip else "skip"]
    names += [] if found.certified is None else ["certified"]
    own, bound = found.own, found.bounds

    def median(values: Array, index: int) -> str:
        if not 0 <= index < values.shape[-1]:
            return ""
        column = values[..., index]
        known = column[np.isfinite(column)]
        return f"{np.median(known):.2f}" if known.size else "-"

    rows = []
    for layer in shown_layers(found.layers):
        cells = [
            median(own.residual, layer),
            median(own.relative, layer),
            median(own.exponents, layer - 1),
            median(own.orders, layer - 2),
            median(bound.step, layer - 1),
            median(bound.theorem, layer - 1),
        ]
        if found.other is not None:
            cells.append(median(found.other.relative, layer))
        if found.certified is not None:
            cells.append(f"{found.certified[layer]:.4f}")
        rows.append((str(layer), *cells))
    yield _table("residuals", tuple(names), rows)
    yield Say(
        "exponent: ratio of consecutive logarithms; order: ratio of consecutive steps (3 if every "
        "layer cubes the residual); step, theorem: the bounds"
    )


def _mechanisms(found: MechanismStudy) -> Iterator[Block]:
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
    yield _table("residuals", names, rows)
    yield Say(
        "exponent: ratio of consecutive logarithms of the relative residual; near alike: measured "
        "power p such that tokens that differ by eps have a relative residual of order eps^p "
        "after the layer; expected: this power according to the properties of the "
        "mechanisms"
    )


@tabled.register
def table_of_depth(depth: Depth) -> Table:
    """Decimal logarithms of the relative residual, after every layer."""
    columns = dict(_columns(depth.found))
    layers = range(depth.found.layers + 1)
    rows = tuple((layer, *(column[layer] for column in columns.values())) for layer in layers)
    title = "log10 of the relative residual, after every layer"
    return Table("depth", title, ("layer", *columns), rows, (True,) * (len(columns) + 1))


def _columns(found: Curves | Study | MechanismStudy) -> Iterator[tuple[str, list[Cell]]]:
    if isinstance(found, Study):
        yield "with skips" if found.skip else "without skips", _medians(found.own.relative)
        if found.other is not None:
            name = "without skips" if found.skip else "with skips"
            yield name, _medians(found.other.relative)
        return
    if isinstance(found, MechanismStudy):
        yield "as it is", _medians(found.relative)
        return
    for curve in found.curves:
        yield str(curve.variant), [_finite(value) for value in curve.log10]


def _medians(values: Array) -> list[Cell]:
    return [_finite(value) for value in medians(values)]


def _finite(value: float) -> Cell:
    return float(value) if math.isfinite(value) else None


@view.register
def of_paths(found: Paths) -> Iterator[Block]:
    """Contributions by length and layer."""
    sums, heads = found.sums, found.heads
    total = sum(sums.counts)
    yield Title(f"{found.name}: {counted(total, 'path')}", found.status, style="")
    sizes, relative = norm(sums.by_length), relative_residual(sums.by_length)
    rows = [
        (
            str(length),
            f"{count:.3g}" if count > 10**9 else f"{count:,}",
            f"{count / total:.4f}",
            _share(sums.shares[length]),
            _number(float(np.mean(sizes[length]))),
            _number(float(np.mean(relative[length]))),
        )
        for length, count in enumerate(sums.counts)
        if count
    ]
    bias, whole = float(np.mean(norm(sums.bias))), float(np.mean(norm(sums.total)))
    rows.append(("biases", "", "", _share(sums.bias_share), _number(bias), ""))
    rows.append(("output", "", "", "1.0000", _number(whole), ""))
    names = ("length", "paths", "of all", "share of output", "norm", "relative residual")
    yield _table("paths", names, rows)
    yield Say(
        "share of output: <term, output> / |output|^2; shares sum to one, and are negative for "
        "terms that point against the output"
    )
    yield Say(
        "relative difference of the sum of all paths and biases from the network's output: "
        f"{found.error:.1e}"
    )
    rest = 1 - np.mean(sums.bias_share)
    layers = []
    for layer in shown_layers(len(heads.shares) - 1):
        own = heads.shares[layer].reshape(len(heads.shares[layer]), -1).mean(axis=1)
        largest = int(own.argmax())
        most = f"{_share(own[largest])} (head {largest + 1})"
        layers.append((str(layer + 1), _share(own.sum()), _share(rest - own.sum()), most))
    titles = ("layer", "share through its heads", "share around it", "largest share of a head")
    yield _table("layers", titles, layers)
    for path in found.sampled:
        steps = " ".join(str(step) if step else "-" for step in path["path"])
        yield Say(
            f"path {steps}: norm {_number(path['norm'])}, relative residual "
            f"{_number(path['relative'])}"
        )


def _share(values: Any) -> str:
    """The mean over a batch."""
    mean = float(np.mean(values))
    return f"{mean:.4f}" if np.isfinite(mean) else "-"


@tabled.register
def table_of_paths(found: Paths) -> Table:
    """A row for every length of paths."""
    total = sum(found.sums.counts)
    rows = tuple(
        (length, count, count / total, float(np.mean(found.sums.shares[length])))
        for length, count in enumerate(found.sums.counts)
        if count
    )
    names = ("length", "paths", "of all", "share of output")
    return Table("paths", "Paths by length", names, rows)


@view.register
def of_shares(found: PathShares) -> Iterator[Block]:
    """Shares of paths by length."""
    shares = found.value
    yield Title(f"{found.model}: shares of paths by length", found.status, style="")
    rows = [
        (str(length), f"{shares[length]:.4f}")
        for length in sorted(range(len(shares)), reverse=True)
        if shares[length] >= 5e-5
    ]
    yield _table("shares", ("length", "share"), rows)


@tabled.register
def table_of_shares(found: PathShares) -> Table:
    """A row for every length."""
    rows = tuple(enumerate(map(float, found.value)))
    return Table("shares", "Shares of all paths, by length", ("length", "of all"), rows)
