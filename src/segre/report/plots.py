"""Findings as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from segre.report.drawing import picture
from segre.reproduce.normalized_dimension import Row

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
