"""Findings as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from segre.finding import GROUPS, Findings
from segre.report.drawing import picture
from segre.reproduce.normalized_dimension import Row

_PIECES = ("#1f5fa8", "#c26a12", "#2f8f4e", "#7a4fb5", "#b3202c", "#5b6770")
_INK = {"softmax": "#1f5fa8", "lightning": "#c26a12"}


def plot_normalized_dimension(rows: Sequence[Row], path: Path) -> None:
    """Conjectured, certified and estimated dimension against the width, kind by kind."""
    with picture(path, 10, 4.6) as figure:
        kinds = list(dict.fromkeys(row.kind for row in rows))
        axes = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
        for ax, kind in zip(axes, kinds, strict=True):
            mine = [row for row in rows if row.kind == kind]
            d = [row.d for row in mine]
            ax.plot(d, [row.parameters for row in mine], ":", color="0.55", label="parameters")
            ax.plot(
                d,
                [row.conjectured for row in mine],
                "-",
                color=_INK[kind],
                label="conjectured formula",
            )
            ax.plot(
                d,
                [row.certified for row in mine],
                "o",
                color=_INK[kind],
                label="certified (exact rank = upper bound)",
            )
            ax.plot(
                d,
                [row.float32 for row in mine],
                "x",
                color="#b3202c",
                label="float32 rank (estimate)",
            )
            for row in mine:
                if row.float32 != row.certified:
                    ax.annotate(
                        f"{row.float32 - row.certified:+d}",
                        (row.d, row.float32),
                        textcoords="offset points",
                        xytext=(6, -10),
                        fontsize=8,
                        color="#b3202c",
                    )
            ax.set_title(f"two {kind} layers, t = 3, a = 2")
            ax.set_xlabel("width d")
            ax.set_xticks(d)
            ax.grid(alpha=0.25)
            ax.spines[["top", "right"]].set_visible(False)
            ax.legend(frameon=False, loc="upper left")
        axes[0].set_ylabel("dimension of the space of functions")


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
