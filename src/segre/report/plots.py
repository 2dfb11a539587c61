"""Findings as plots."""

from __future__ import annotations

from pathlib import Path

from segre.finding import GROUPS, Findings
from segre.report.drawing import picture

_PIECES = ("#1f5fa8", "#c26a12", "#2f8f4e", "#7a4fb5", "#b3202c", "#5b6770")


def plot_redundancy(several: Findings, path: Path) -> None:
    """The share of redundant parameters of each architecture, by piece."""
    count = len(several.found)
    with picture(path, 9, 1.4 + 0.36 * count) as figure:
        ax = figure.subplots()
        places = range(count)
        left = [0.0] * count
        for group, ink in zip(GROUPS, _PIECES, strict=True):
            shares = [
                100 * (one.redundancy or {"pieces": {group: 0}})["pieces"][group] / one.parameters
                for one in several.found
            ]
            if any(shares):
                ax.barh(places, shares, left=left, color=ink, label=group, height=0.7)
            left = [one + more for one, more in zip(left, shares, strict=True)]
        for place, total in zip(places, left, strict=True):
            ax.annotate(
                f"{total:.3f} %",
                (total, place),
                textcoords="offset points",
                xytext=(4, 0),
                va="center",
                fontsize=8,
            )
        ax.set_yticks(places, [name[:60] for name in several.names])
        ax.invert_yaxis()
        ax.margins(x=0.12)
        ax.set_xlabel("redundant parameters, % of all")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, loc="best", fontsize=8)
