"""Measurements of a checkpoint as a plot: every head of every layer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from segre.checkpoint.info import Info, Product
from segre.fields.interface import Array
from segre.report.captions import BLUE, GREY, ORANGE
from segre.report.checkpoints import short
from segre.report.drawing import picture

_CELL = 0.21  # inches, of a head of a layer


def plot_info(info: Info, path: Path) -> None:
    """Condition and stable rank of the products of all heads, and the stored gauge by layer."""
    heads, layers = len(info.layers[0].ov), len(info.layers)
    wide, high = min(max(_CELL * heads, 1.9), 4.5), min(max(_CELL * layers, 2.2), 9.0)
    with picture(path, 4 * wide + 3.6, high + 2.0) as figure:
        from matplotlib.ticker import MaxNLocator

        widths, heights = [*[wide] * 4, 1.8], [high, 0.12]
        axes, below = figure.subplots(
            2, 5, width_ratios=widths, height_ratios=heights, sharey="row"
        )
        for n, (measure, kind) in enumerate(product(_MEASURES, ("OV", "QK"))):
            colours, value = _MEASURES[measure]
            image = _heat_map(axes[n], _table(info, kind, value), colours)
            axes[n].set_title(f"{kind}: {measure}", fontsize=10)
            _crosses(axes[n], info, kind)
            bar = figure.colorbar(image, cax=below[n], orientation="horizontal")
            bar.ax.xaxis.set_major_locator(MaxNLocator(4))
            if measure == "condition number":
                bar.ax.xaxis.set_major_formatter(lambda x, _: short(10**x))
            bar.ax.tick_params(labelsize=8)
        axes[0].set_ylabel("layer")
        axes[0].yaxis.set_major_locator(MaxNLocator(12, integer=True, steps=[1, 2, 5, 10]))
        _gauge(axes[4], info)
        below[4].axis("off")
        below[4].legend(
            *axes[4].get_legend_handles_labels(), frameon=False, fontsize=8, ncols=2, loc="center"
        )
        figure.suptitle(f"{info.name} ({info.family}, {info.parameters:,} parameters), measured")
        figure.supxlabel(_caption(info), fontsize=8.5, color=GREY)


def _caption(info: Info) -> str:
    turning = info.layers[0].gauge.planes is not None
    planes = "; for the worst rotary plane, the factor" if turning else ""
    lines = [
        "Singular values of W_O W_V (OV) and W_Q' W_K (QK) of every query head, norms folded in. "
        "Condition number: largest over smallest nonzero singular value.",
        "Stable rank: sum of squares over the largest square; at most "
        f"{len(info.layers[0].ov[0].singular_values)} (OV) and "
        f"{len(info.layers[0].qk[0].singular_values)} (QK). {_deficient(info)}",
        "Gauge, which does not affect the function: condition of the stored basis of the worst "
        f"head relative to balanced factors{planes}.",
    ]
    return "\n".join(lines)


def _deficient(info: Info) -> str:
    lacking = sum(not head.full for layer in info.layers for head in (*layer.ov, *layer.qk))
    return (
        f"Crosses: rank-deficient heads ({lacking})." if lacking else "No head is rank-deficient."
    )


def _heads(info: Info, kind: str) -> list[tuple[Product, ...]]:
    return [layer.ov if kind == "OV" else layer.qk for layer in info.layers]


def _table(info: Info, kind: str, measure: Callable[[Product], float | None]) -> Array:
    """Layers by heads; what has no value is not a number."""
    rows = [[measure(head) for head in layer] for layer in _heads(info, kind)]
    return np.array(rows, dtype=float)


def _log10(number: float | None) -> float | None:
    return None if number is None else float(np.log10(number))


_MEASURES: dict[str, tuple[str, Callable[[Product], float | None]]] = {
    "condition number": ("magma", lambda head: _log10(head.condition)),
    "stable rank": ("viridis", lambda head: head.stable_rank),
}


def _heat_map(ax: Any, values: Array, colours: str) -> Any:
    from matplotlib.ticker import MaxNLocator

    layers, heads = values.shape
    ax.set_facecolor("0.85")  # of heads without a value
    ax.set_xlabel("head", fontsize=9)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    ax.tick_params(labelsize=8)
    place = (0.5, heads + 0.5, layers + 0.5, 0.5)
    return ax.imshow(values, colours, extent=place, aspect="auto", interpolation="nearest")


def _crosses(ax: Any, info: Info, kind: str) -> None:
    lacking = [
        (h + 1, layer + 1)
        for layer, heads in enumerate(_heads(info, kind))
        for h, head in enumerate(heads)
        if not head.full
    ]
    if lacking:
        x, y = zip(*lacking, strict=True)
        ax.plot(x, y, "x", color="white", markersize=6, markeredgewidth=2.4)
        ax.plot(x, y, "x", color="black", markersize=5, markeredgewidth=1.0)


def _gauge(ax: Any, info: Info) -> None:
    from matplotlib.ticker import MaxNLocator

    numbers = [layer.number for layer in info.layers]
    lines = [("VO basis", [layer.gauge.vo for layer in info.layers], BLUE, "o")]
    still = [layer.gauge.qk for layer in info.layers]
    planes = [layer.gauge.planes for layer in info.layers]
    if None not in still:
        lines.append(("QK basis", [x for x in still if x is not None], ORANGE, "s"))
    if None not in planes:
        lines.append(("QK planes", [2**x for x in planes if x is not None], ORANGE, "s"))
    for name, values, colour, marker in lines:
        ax.plot(np.log10(values), numbers, marker, ls="-", ms=4, lw=1, color=colour, label=name)
    largest = max(max(values) for _, values, _, _ in lines)
    ax.set_xlim(-0.03, 1.08 * max(np.log10(largest), 0.3))
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.xaxis.set_major_formatter(lambda x, _: short(10**x))
    ax.set_title("stored gauge", fontsize=10)
    ax.set_xlabel("1 is balanced", fontsize=9)
    ax.tick_params(labelsize=8)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
