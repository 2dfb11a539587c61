"""Rank against depth, and paths, on the terminal."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table

from segre.collapse.commands import Depth, Paths, PathShares
from segre.collapse.curves import Curve, Curves
from segre.collapse.mechanisms import MechanismStudy
from segre.collapse.residual import norm, relative_residual
from segre.collapse.sinks import DOMINANT
from segre.collapse.study import Study
from segre.fields.interface import Array
from segre.report.console import plain_console
from segre.report.text import printed
from segre.values import counted, from_logarithm

_ROWS = 14


@printed.register
def print_depth(depth: Depth) -> None:
    """The numbers by layer, then the verdict in words."""
    if isinstance(depth.found, Study):
        _print_study(depth.found)
    elif isinstance(depth.found, MechanismStudy):
        _print_mechanisms(depth.found)
    else:
        _print_curves(depth.found)
    console = plain_console()
    for sentence in depth.advice:
        console.print(sentence)


def _print_curves(found: Curves) -> None:
    """Mean relative residuals by layer and variant."""
    console = plain_console()
    model, inputs = found.model, found.inputs
    console.print(
        f"{model['model']}: {counted(model['layers'], 'layer')}, "
        f"{counted(model['heads'], 'head')}, width "
        f"{model['width']}, {model['weights']} weights; {counted(inputs['count'], 'input')} of "
        f"{inputs['length']} tokens",
        soft_wrap=True,
    )
    console.print(
        "relative residual, mean over inputs (last line: its spread after the last layer):"
    )
    table = _table("layer", *(_short(str(curve.variant)) for curve in found.curves))
    for layer in shown_layers(found.layers):
        table.add_row(str(layer), *(_cell(curve, layer, found.floor) for curve in found.curves))
    spreads = ("" if curve.floored else _number(curve.spread()[-1]) for curve in found.curves)
    table.add_row("+-", *spreads)
    if found.fuse is not None:
        fused = (curve.fused for curve in found.curves)
        table.add_row(
            found.fuse, *("" if one is None else _number(float(one.mean())) for one in fused)
        )
    console.print(table)
    if found.fuse is not None:
        console.print(f"{found.fuse}: the streams of all layers, fused")
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
        console.print(" ".join(said_of))
    _print_sinks(found)


def _cell(curve: Curve, layer: int, floor: float) -> str:
    """A mean; below the floor, what is known there."""
    if curve.floored is None or layer < curve.floored:
        return _number(curve.mean()[layer])
    if curve.past is None:
        return f"<{_number(floor)}"
    return power(float(curve.past[layer]))


def _print_sinks(found: Curves) -> None:
    """The curves without the tokens that dominate them."""
    shown = [(curve, curve.sink) for curve in found.curves if curve.sink is not None]
    if not shown:
        return
    console = plain_console()
    for name in dict.fromkeys(sink.name for _, sink in shown):
        console.print(
            f"{name[0].upper()}{name[1:]} dominates (in brackets: its norm over the median norm "
            "of tokens). Residuals with it, and without it where it dominates:"
        )
    columns = [heading for curve, _ in shown for heading in (_short(str(curve.variant)), "without")]
    table = _table("layer", *columns)
    for layer in shown_layers(found.layers):
        cells = []
        for curve, _ in shown:
            factor, known = curve.mean("factor")[layer], curve.lost is None or layer < curve.lost
            bracket = f" ({factor:.0f})" if known and factor >= DOMINANT else ""
            without = _number(curve.mean("without")[layer]) if bracket else ""
            cells += [_cell(curve, layer, found.floor) + bracket, without]
        table.add_row(str(layer), *cells)
    console.print(table)


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


def _print_study(found: Study) -> None:
    """Residuals of a random stack as decimal logarithms, with rates and bounds."""
    console = plain_console()
    console.print(
        f"{found.spec}: random weights (seed {found.seed}), {counted(found.inputs, 'input')}",
        soft_wrap=True,
    )
    console.print("decimal logarithms of residuals, medians over inputs:")
    names = ["layer", "residual", "relative", "exponent", "order", "step", "theorem"]
    other = [] if found.other is None else ["no skip" if found.skip else "skip"]
    proved = [] if found.certified is None else ["certified"]
    table = _table(*names, *other, *proved)
    own, bound = found.own, found.bounds

    def median(values: Array, index: int) -> str:
        if not 0 <= index < values.shape[-1]:
            return ""
        column = values[..., index]
        known = column[np.isfinite(column)]
        return f"{np.median(known):.2f}" if known.size else "-"

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
        table.add_row(str(layer), *cells)
    console.print(table)
    console.print(
        "exponent: ratio of consecutive logarithms; order: ratio of consecutive steps (3 if every "
        "layer cubes the residual); step, theorem: the bounds"
    )


def _print_mechanisms(found: MechanismStudy) -> None:
    """Residuals of a random stack as decimal logarithms, and the exponent of every layer."""
    console = plain_console()
    console.print(
        f"{found.spec}: random weights (seed {found.seed}), {counted(found.inputs, 'input')}, in "
        f"certified arithmetic with {found.bits} bits",
        soft_wrap=True,
    )
    console.print("decimal logarithms of residuals, medians over inputs:")
    table = _table("layer", "residual", "relative", "exponent", "near alike", "expected")
    for layer in shown_layers(found.layers):
        cells = [f"{np.median(found.residual[:, layer]):.2f}"]
        cells.append(f"{np.median(found.relative[:, layer]):.2f}")
        if layer:
            step = found.steps[layer - 1]
            expected = "zero" if step.expected is None else str(step.expected)
            order = found.orders[layer - 1]
            cells += [
                f"{order:.2f}" if np.isfinite(order) else "-",
                f"{step.relative:.2f}",
                expected,
            ]
        table.add_row(str(layer), *cells)
    console.print(table)
    console.print(
        "exponent: ratio of consecutive logarithms of the relative residual; near alike: measured "
        "power p such that tokens that differ by eps have a relative residual of order eps^p "
        "after the layer; expected: this power according to the properties of the "
        "mechanisms"
    )


@printed.register
def print_paths(found: Paths) -> None:
    """Contributions by length and layer."""
    console, sums, heads = plain_console(), found.sums, found.heads
    total = sum(sums.counts)
    console.print(f"{found.name}: {counted(total, 'path')}", soft_wrap=True)
    table = _table("length", "paths", "of all", "share of output", "norm", "relative residual")
    sizes, relative = norm(sums.by_length), relative_residual(sums.by_length)
    for length, count in enumerate(sums.counts):
        if count:
            table.add_row(
                str(length),
                f"{count:.3g}" if count > 10**9 else f"{count:,}",
                f"{count / total:.4f}",
                _share(sums.shares[length]),
                _number(float(np.mean(sizes[length]))),
                _number(float(np.mean(relative[length]))),
            )
    bias, whole = float(np.mean(norm(sums.bias))), float(np.mean(norm(sums.total)))
    table.add_row("biases", "", "", _share(sums.bias_share), _number(bias), "")
    table.add_row("output", "", "", "1.0000", _number(whole), "")
    console.print(table)
    console.print(
        "share of output: <term, output> / |output|^2; shares sum to one, and are negative for "
        "terms that point against the output"
    )
    console.print(
        "relative difference of the sum of all paths and biases from the network's output: "
        f"{found.error:.1e}"
    )
    table = _table("layer", "share through its heads", "share around it", "largest share of a head")
    rest = 1 - np.mean(sums.bias_share)
    for layer in shown_layers(len(heads.shares) - 1):
        own = heads.shares[layer].reshape(len(heads.shares[layer]), -1).mean(axis=1)
        largest = int(own.argmax())
        table.add_row(
            str(layer + 1),
            _share(own.sum()),
            _share(rest - own.sum()),
            f"{_share(own[largest])} (head {largest + 1})",
        )
    console.print(table)
    for path in found.sampled:
        steps = " ".join(str(step) if step else "-" for step in path["path"])
        console.print(
            f"path {steps}: norm {_number(path['norm'])}, relative residual "
            f"{_number(path['relative'])}"
        )


def _share(values: Any) -> str:
    """The mean over a batch."""
    mean = float(np.mean(values))
    return f"{mean:.4f}" if np.isfinite(mean) else "-"


@printed.register
def print_shares(found: PathShares) -> None:
    """Shares of paths by length."""
    console, shares = plain_console(), found.value
    console.print(f"{found.model}: shares of paths by length", soft_wrap=True)
    table = _table("length", "share")
    for length in sorted(range(len(shares)), reverse=True):
        if shares[length] >= 5e-5:
            table.add_row(str(length), f"{shares[length]:.4f}")
    console.print(table)


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    return table
