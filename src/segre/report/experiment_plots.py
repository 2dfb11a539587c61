"""The second paper's experiments as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from segre.collapse.variants import PAPER
from segre.report.drawing import picture
from segre.reproduce.circle import RADIUS, Walk
from segre.reproduce.path_effectiveness import Effectiveness
from segre.reproduce.path_lengths import LengthShares
from segre.reproduce.rank_collapse import NAMES, ModelCollapse

_BLUE, _ORANGE, _RED, _GREEN, _GREY = "#1f5fa8", "#c26a12", "#b3202c", "#2c7d4f", "0.45"
_INK = (_RED, _ORANGE, _BLUE, _GREEN)


def plot_effectiveness(found: Effectiveness, path: Path) -> None:
    """Accuracies of paths by length: exact sums, and isolated ones beside the published."""
    with picture(path, 10, 5.2) as figure:
        axes = figure.subplots(1, 2, sharey=True)
        lengths = [row.length for row in found.rows]
        own, other = axes
        own.plot(
            lengths,
            [row.up_to for row in found.rows],
            "-s",
            color=_GREEN,
            label="all paths of length up to k",
        )
        own.plot(
            lengths,
            [row.exact for row in found.rows],
            "-o",
            color=_BLUE,
            label="all paths of length k",
        )
        own.set_title("exact sums of all paths")
        other.errorbar(
            lengths,
            [row.isolated for row in found.rows],
            [row.isolated_spread for row in found.rows],
            fmt="-o",
            color=_ORANGE,
            capsize=3,
            label=f"{found.drawn} paths of length k",
        )
        if found.plan.published.lengths:
            known = [row.published for row in found.rows if row.published is not None]
            other.plot(
                lengths[: len(known)],
                known,
                "x",
                color=_RED,
                ms=8,
                mew=1.6,
                label="published code, run again",
            )
        other.set_title("sampled paths, as networks of their own")
        for ax in axes:
            ax.axhline(found.accuracy, color=_GREY, lw=1.2)
            ax.axhline(found.majority, color=_GREY, lw=1.2, ls=":")
            ax.set_xlabel("path length k")
            ax.set_xticks(lengths)
            _tidy(ax)
        other.plot([], [], "-", color=_GREY, label=f"the network: {found.accuracy:.3f}")
        other.plot([], [], ":", color=_GREY, label=f"most frequent label: {found.majority:.2f}")
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        own.set_ylabel("accuracy, token by token")
        own.set_ylim(-0.06, 1.04)
        figure.suptitle(f"{found.plan.title[0].upper()}{found.plan.title[1:]}")


def plot_walks(walks: Sequence[Walk], path: Path) -> None:
    """Where each variant takes the two tokens, and how far apart they are."""
    with picture(path, 2.9 * len(walks), 6.2) as figure:
        from matplotlib.patches import Circle

        axes = figure.subplots(2, len(walks), sharey="row", squeeze=False, height_ratios=(3, 2))
        for walk, ax, below in zip(walks, *axes, strict=True):
            ax.add_patch(Circle((0, 0), RADIUS, fill=False, color="0.8", lw=1))
            end = None if walk.merged is None else walk.merged + 1
            for token, ink in enumerate((_BLUE, _ORANGE)):
                x, y = walk.tokens[:end, token].T
                ax.plot(x, y, ".-", color=ink, ms=3, lw=0.6)
                ax.plot(x[0], y[0], "o", color=ink, ms=8, mfc="white", mew=1.6)
                ax.plot(x[-1], y[-1], "X", color=ink, ms=8)
            ax.set_aspect("equal")
            merged = "" if end is None else f"\nmerged from step {walk.merged} on"
            ax.set(xlim=(-0.45, 0.45), ylim=(-0.45, 0.45), title=f"{walk.name}{merged}")
            ax.set_xticks([-0.3, 0, 0.3])
            below.plot(walk.distances, color="0.2")
            below.set_xlabel("step")
            below.set_ylim(0, max(1.5, min(3, max(float(one.distances.max()) for one in walks))))
            _tidy(ax)
            _tidy(below)
        axes[1][0].set_ylabel("distance of the tokens,\nover the first")
        figure.suptitle(
            "Two tokens moved by one layer, again and again (ring: start, cross: end or merging)"
        )


def plot_path_lengths(rows: Sequence[LengthShares], path: Path) -> None:
    """The share of every length, by model, and the published ones."""
    with picture(path, 8.4, 4.8) as figure:
        from matplotlib import colormaps
        from matplotlib.ticker import FuncFormatter

        ax = figure.subplots()
        for row, ink in zip(rows, colormaps["viridis"].resampled(len(rows)).colors, strict=True):  # type: ignore[attr-defined]
            missing = [row.layers - k for k in range(row.layers + 1)]
            name = f"{row.model} ({row.layers} layers, {row.heads} heads)"
            ax.plot(missing, row.shares, "-o", color=ink, ms=4, label=name)
        for number, row in enumerate(rows):
            label = None if number else "published"
            ax.plot((0, 1), row.published, "x", color=_RED, ms=8, mew=1.6, label=label)
        ax.set_xlim(8.5, -0.5)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"L - {x:.0f}" if x else "L"))
        ax.set_xlabel("path length (L is the number of layers)")
        ax.set_ylabel("share of all paths")
        _tidy(ax)
        ax.legend(frameon=False, loc="upper left")


def plot_rank_collapse(found: Sequence[ModelCollapse], path: Path) -> None:
    """Relative residuals by depth, on a logarithmic axis, with the published points."""
    with picture(path, 4.2 * len(found), 4.8) as figure:
        axes = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
        for ax, one in zip(axes, found, strict=True):
            for variant, ink in zip(PAPER, _INK, strict=True):
                means = [max(float(value), 3e-9) for value in one.curves[variant].mean()]
                ax.plot(means, "-o", color=ink, ms=3.5, label=NAMES[variant])
                points = zip(one.layers(), one.known(variant)[0], strict=False)
                shown = [(layer, value) for layer, value in points if value is not None]
                if shown:
                    ax.plot(*zip(*shown, strict=True), "x", color=ink, ms=7, mew=1.4)
            ax.set_yscale("log")
            ax.set_title(one.model)
            ax.set_xlabel("layer")
            ax.set_xticks(one.layers())
            _tidy(ax)
        axes[0].plot([], [], "x", color=_GREY, label="paper")
        axes[0].set_ylabel("mean relative residual")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def _tidy(ax: Any) -> None:
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
