"""The lineage of several checkpoints as a plot: distances and their tree."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from segre.checkpoint.lineage import Lineage
from segre.report.captions import BLUE, GREY
from segre.report.drawing import picture

_LONG = 24  # characters of a name


def plot_lineage(found: Lineage, path: Path) -> None:
    """Distances as a heat map in the order of the tree, and the tree beside it."""
    from scipy.cluster.hierarchy import dendrogram

    n = len(found.names)
    side = min(max(0.55 * n, 2.4), 9.0)
    names = [name if len(name) <= _LONG else f"…{name[1 - _LONG :]}" for name in found.names]
    with picture(path, 2 * side + 4.4, side + 1.8) as figure:
        left, right = figure.subplots(1, 2)
        drawn = dendrogram(found.tree, no_plot=True)
        for places, heights in zip(drawn["icoord"], drawn["dcoord"], strict=True):
            left.plot(heights, places, color=BLUE, linewidth=1.5)
        left.set_xlim(max(1.05 * float(found.tree[-1, 2]), 0.05), 0)
        left.set_ylim(0, 10 * n)
        left.yaxis.tick_right()
        left.set_yticks(range(5, 10 * n, 10), [names[i] for i in drawn["leaves"]], fontsize=9)
        left.tick_params(axis="y", length=0)
        left.set_xlabel("distance to nearest relatives (average linkage)")
        left.set_title("tree", fontsize=10)
        for edge in ("top", "left", "right"):
            left.spines[edge].set_visible(False)
        order = drawn["leaves"][::-1]
        table = found.distances[np.ix_(order, order)]
        image = right.imshow(table, cmap="Blues_r", vmin=0, vmax=2**0.5)
        right.set_xticks(range(n), [names[i] for i in order], rotation=45, ha="right", fontsize=8)
        right.set_yticks(range(n), [names[i] for i in order], fontsize=8)
        right.set_title("distances", fontsize=10)
        if n <= 12:
            for i in range(n):
                for j in range(n):
                    colour = "white" if table[i, j] < 0.7 else "black"
                    right.text(
                        j,
                        i,
                        f"{table[i, j]:.2f}",
                        ha="center",
                        va="center",
                        fontsize=7,
                        color=colour,
                    )
        bar = figure.colorbar(image, ax=right, shrink=0.8)
        bar.set_ticks([0, 0.5, 1], labels=["0", "0.5", "1"])
        bar.ax.tick_params(labelsize=8)
        count = len(found.groups)
        figure.suptitle(f"{n} checkpoints, {count} origin{'s' * (count != 1)}")
        figure.supxlabel(
            "Mean distance of heads and units (scaled to length 1) to their nearest relatives in "
            "the other\nmodel: 0 for copies of one function, about 1.3 for models trained "
            "independently.",
            fontsize=8,
            color=GREY,
        )
