"""Plots of rank against depth, and of paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from segre.collapse.commands import Depth, Paths
from segre.collapse.curves import Curves
from segre.collapse.mechanisms import MechanismStudy
from segre.collapse.study import Study, medians
from segre.fields.interface import Array
from segre.report.drawing import picture

_LOWEST = 1e-30  # what lies below is in the numbers
_FEW_DIGITS = 20  # of a logarithm that a plain axis shows well
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # told apart by the colour-blind


def plot_depth(depth: Depth, path: Path) -> None:
    """Residuals by layer: of a random stack, or of a model and its variants."""
    if isinstance(depth.found, Study):
        _plot_study(depth.found, path)
    elif isinstance(depth.found, MechanismStudy):
        _plot_mechanisms(depth.found, path)
    else:
        _plot_curves(depth.found, path)


def _plot_curves(found: Curves, path: Path) -> None:
    """Relative residuals by layer, one line for each variant, with spreads."""
    with picture(path, 7.2, 4.6) as figure:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        layers = np.arange(found.layers + 1)
        lowest = 1.0
        for number, curve in enumerate(found.curves):
            colour = _COLOURS[number % 4]
            means = 10.0 ** np.maximum(curve.log10, -300)
            style = "-" if curve.variant.norm else "--"
            axes.plot(layers, means, style, color=colour, label=curve.variant.words, lw=1.8)
            if curve.sink is not None:
                label = f"{curve.variant.words}, without {curve.sink.name}"
                axes.plot(layers, curve.mean("without"), ":", color=colour, label=label, lw=1.4)
            last = curve.floored  # spreads are known as far as single precision goes
            low, high = curve.values["relative"].min(axis=-1), curve.values["relative"].max(axis=-1)
            axes.fill_between(
                layers[:last], low[:last], high[:last], color=colour, alpha=0.12, lw=0
            )
            lowest = min(lowest, np.nanmin(means)) if np.isfinite(means).any() else lowest
        axes.set_yscale("log")
        axes.set_ylim(bottom=max(lowest / 3, _LOWEST))
        if lowest < found.floor or any(curve.floored is not None for curve in found.curves):
            axes.axhline(found.floor, color="0.6", lw=0.8, zorder=0)
            words = " below: the first input, beyond single precision"
            axes.text(0.02, found.floor, words, va="top", fontsize=8, color="0.4")
        axes.set_xlabel("layer")
        axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
        axes.set_ylabel("relative residual")
        model = found.model
        axes.set_title(f"{model['model']}, {model['weights']} weights", fontsize=11)
        axes.legend(fontsize=8, ncols=2, frameon=False)
        axes.grid(alpha=0.25)


def _plot_study(found: Study, path: Path) -> None:
    """Logarithms of residuals by layer, and the ratios that tend to 3."""
    with picture(path, 9, 4) as figure:
        left, right = figure.subplots(1, 2)
        layers = np.arange(found.layers + 1)
        logs = medians(found.own.residual)
        left.plot(layers, logs, "o-", color=_COLOURS[0], label="measured")
        left.plot(
            layers[1:],
            medians(found.bounds.step),
            "s--",
            color=_COLOURS[1],
            label="one step",
        )
        left.plot(
            layers[1:],
            medians(found.bounds.theorem),
            "^:",
            color=_COLOURS[3],
            label="theorem",
        )
        if found.other is not None:
            label = "without skips" if found.skip else "with skips"
            other = medians(found.other.residual)
            left.plot(layers, other, "-", color=_COLOURS[2], label=label)
        _logarithms(left, layers)
        left.set_xlabel("layer")
        left.set_ylabel("log10 of the residual")
        left.legend(fontsize=8, frameon=False)
        left.grid(alpha=0.25)
        if found.layers > 1:
            right.plot(layers[2:], medians(found.own.orders), "o-", color=_COLOURS[0])
        right.axhline(3, color="0.5", lw=1)
        right.set_ylim(0, 4)
        right.set_xlabel("layer")
        right.set_ylabel("order: ratio of consecutive steps of the logarithm")
        right.grid(alpha=0.25)
        figure.suptitle(found.spec, fontsize=10)


def _logarithms(axes: Any, layers: Array) -> None:
    """An axis of logarithms, which may themselves grow exponentially, over whole layers."""
    if axes.get_ylim()[0] < -_FEW_DIGITS:
        axes.set_yscale("symlog", linthresh=1)
    axes.set_xticks(_ticks(layers))


def _ticks(layers: Array) -> Array:
    return np.asarray(layers[:: max(1, len(layers) // 12)])


def _plot_mechanisms(found: MechanismStudy, path: Path) -> None:
    """Logarithms of relative residuals by layer, and the exponent of every layer."""
    with picture(path, 9, 4) as figure:
        left, right = figure.subplots(1, 2)
        layers = np.arange(found.layers + 1)
        left.plot(layers, np.median(found.relative, axis=0), "o-", color=_COLOURS[0])
        _logarithms(left, layers)
        left.set_xlabel("layer")
        left.set_ylabel("log10 of the relative residual")
        left.grid(alpha=0.25)
        measured = [step.relative for step in found.steps]
        expected = [np.nan if step.expected is None else step.expected for step in found.steps]
        right.plot(layers[1:], expected, "_", ms=18, mew=2, color="0.6", label="from properties")
        right.plot(layers[1:], measured, "o", color=_COLOURS[1], label="measured")
        right.set_ylim(-0.3, 3.5)
        right.set_xlim(0.5, found.layers + 0.5)
        right.set_xticks(_ticks(layers[1:]))
        right.set_xlabel("layer")
        right.set_ylabel("exponent for nearly equal tokens")
        right.legend(fontsize=8, frameon=False)
        right.grid(alpha=0.25)
        figure.suptitle(found.spec, fontsize=10)


def plot_paths(found: Paths, path: Path) -> None:
    """Shares of the output by length and of biases, numbers of paths, and a map of heads."""
    sums, heads = found.sums, found.heads
    with picture(path, 9.5, 4) as figure:
        left, right = figure.subplots(1, 2)
        lengths = np.flatnonzero(np.array(sums.counts, dtype=float) > 0)
        shares = sums.shares.reshape(len(sums.shares), -1).mean(axis=1)
        left.bar(lengths, shares[lengths], color=_COLOURS[0])
        left.bar(len(shares), float(np.mean(sums.bias_share)), color=_COLOURS[2])
        left.set_xticks([*lengths, len(shares)], [*map(str, lengths), "biases"])
        left.axhline(0, color="0.5", lw=0.8)
        left.set_xlabel("length of paths")
        left.set_ylabel("share of the output", color=_COLOURS[0])
        total = sum(sums.counts)
        share = left.twinx()
        share.plot(
            lengths, [sums.counts[k] / total for k in lengths], "o-", color=_COLOURS[1], ms=4
        )
        share.set_ylabel("share of all paths", color=_COLOURS[1])
        share.set_ylim(bottom=0)
        grid = np.stack([own.reshape(len(own), -1).mean(axis=1) for own in heads.shares])
        image = right.imshow(
            grid,
            aspect="auto",
            cmap="viridis",
            extent=(0.5, grid.shape[1] + 0.5, len(grid) + 0.5, 0.5),
        )
        right.set_xlabel("head")
        right.set_ylabel("layer")
        right.set_title("share of the output of all paths through a head", fontsize=9)
        figure.colorbar(image, ax=right)
        figure.suptitle(found.name, fontsize=10)
