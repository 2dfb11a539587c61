"""What changed between two checkpoints, as a plot and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from segre import __version__
from segre.analysis.diff import Diff
from segre.checkpoint.changes import PIECES
from segre.files import shown
from segre.report.analysis.charts import heat_map, lines
from segre.report.cards.diff import most_of, pieces_of, tiles_of, updates_of
from segre.report.diff import facts_of, gauge_in_words, part_in_words
from segre.report.drawing import picture
from segre.report.page.blocks import Facts, Figure, Page, Section
from segre.report.page.render import write_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

_COLOURS = "YlOrRd"
_LOWEST = 1e-6  # smaller singular values are drawn here
_ROWS_WITH_NUMBERS = 12
_VISIBLE = 0.005  # smaller distances are printed as 0 in the picture


def grid_of(
    found: Diff, *, stored: bool = False
) -> tuple[list[str], list[str], list[list[float | None]]]:
    """Parts, pieces, and the distance for each pair of them: in a common gauge, or as stored."""
    pieces = [piece for piece in PIECES if piece in found.by_piece]
    parts = list(found.by_part)
    cells: list[list[float | None]] = []
    for part in parts:
        known = [found.changes.grid.get((part, piece)) for piece in pieces]
        cells.append(
            [None if one is None else one.relative_raw if stored else one.relative for one in known]
        )
    return parts, pieces, cells


def plot_diff(found: Diff, path: Path) -> None:
    """Distances by layer and piece, as stored and in a common gauge, and spectra of updates."""
    parts, _, cells = grid_of(found)
    _, _, raw = grid_of(found, stored=True)
    maps = [("As stored", raw)]
    if found.changes.moved:
        maps.append(("In a common gauge", cells))
    most = max((x for _, rows in maps for row in rows for x in row if x is not None), default=0.0)
    with picture(path, 3 + 4 * len(maps), max(3.6, 1.4 + 0.24 * len(parts))) as figure:
        *left, right = figure.subplots(1, len(maps) + 1)
        for ax, (title, rows) in zip(left, maps, strict=True):
            image = _draw_map(ax, found, rows, most or 1)
            ax.set_title(title)
        step = 1 if len(parts) <= 40 else -(-len(parts) // 40)
        shown_parts = range(0, len(parts), step)
        left[0].set_yticks(shown_parts, [part_in_words(parts[n]) for n in shown_parts])
        bar = figure.colorbar(image, ax=left[-1])
        bar.set_label("relative distance")
        bar.outline.set_visible(False)
        _draw_spectra(right, found)


def _draw_map(ax: Axes, found: Diff, rows: list[list[float | None]], most: float) -> AxesImage:
    """One map of distances; with numbers where there is room for them."""
    _, pieces, _ = grid_of(found)
    numbers = np.array([[np.nan if x is None else x for x in row] for row in rows])
    image = ax.imshow(numbers, aspect="auto", cmap=_COLOURS, vmin=0, vmax=most)
    ax.set_xticks(range(len(pieces)), pieces)
    ax.set_yticks([])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if len(rows) <= _ROWS_WITH_NUMBERS:
        for (row, column), value in np.ndenumerate(numbers):
            if not np.isnan(value):
                words = f"{value:.2g}" if value >= _VISIBLE else "0"
                colour = "white" if value > 0.6 * most else "0.2"
                ax.text(column, row, words, ha="center", va="center", color=colour, fontsize=9)
    return image


def _draw_spectra(ax: Axes, found: Diff) -> None:
    """The singular values of the largest update of each kind, as far as they are above rounding."""
    last = 8
    for number, (name, one) in enumerate(found.largest.items()):
        values = np.maximum(one.spectrum / max(float(one.spectrum[0]), 1e-300), _LOWEST)
        last = max(last, min(len(values), int((values > _LOWEST).sum()) + 4))
        ranks = range(1, len(values) + 1)
        label = f"{name}, layer {one.part}"
        ax.plot(ranks, values, "o-", ms=4, color=f"C{number}", lw=1.5, label=label)
    ax.set_yscale("log")
    ax.set_ylim(_LOWEST / 1.5, 2)
    ax.set_xlim(0.5, last + 0.5)
    ax.set_xlabel("direction")
    ax.set_ylabel("singular value, relative")
    ax.set_title("Spectrum of the update")
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    if found.largest:
        ax.legend(frameon=False, loc="upper right")
    else:
        ax.annotate("no matrix changed", (0.5, 0.5), xycoords="axes fraction", ha="center")


def write_diff(found: Diff, path: Path, made: str = "", command: str = "") -> None:
    """The difference as one HTML file."""
    write_page(page_of(found, made, command), path)


def page_of(found: Diff, made: str = "", command: str = "") -> Page:
    """The page: what changed, where, and in how many directions."""
    facts = dict(facts_of(found))
    sections = (
        Section.measured(
            "whole",
            "What changed",
            facts["distance"].capitalize() + ".",
            "The second checkpoint is moved towards the first by symmetries, which do not change "
            "its function. The remaining difference is a change of the function."
            if found.changes.moved
            else "The files are compared as they are stored.",
            command,
            Facts(tuple((name, words, "") for name, words in facts.items())),
            pieces_of(found),
        ),
        Section.measured(
            "where",
            "Where",
            f"Relative distances by layer and piece, {gauge_in_words(found)}.",
            "Root of the squared differences, summed over the tensors of a piece, relative to the "
            "first. Single heads are compared by their query-key and value-output products.",
            command,
            _map(found),
            *most_of(found),
        ),
        Section.measured(
            "updates",
            "Rank of the update",
            facts["update"][:1].upper() + facts["update"][1:] + ".",
            "Singular values of the difference of each matrix, compared with those that rounding "
            "gives.",
            command,
            *_spectra(found),
            updates_of(found),
        ),
    )
    words = ", ".join(word for word in (f"segre {__version__}", made) if word)
    return Page(
        title="What changed between two checkpoints",
        subtitle=f"{shown(found.one)} → {shown(found.two)}",
        tiles=tiles_of(found),
        sections=sections,
        document=found.document(),
        command=command,
        made=words,
    )


def _map(found: Diff) -> Figure:
    parts, pieces, cells = grid_of(found)
    return heat_map(
        "grid",
        "Relative distance by layer and piece",
        "A map of relative distances with a row for each layer and a column for each piece.",
        _farthest(parts, pieces, cells),
        ("part", [part_in_words(part) for part in parts]),
        ("piece", pieces),
        cells,
        what="distance",
    )


def _farthest(parts: list[str], pieces: list[str], cells: list[list[float | None]]) -> str:
    """Where the two are farthest apart."""
    far, part, piece = max(
        (cell or 0.0, part, piece)
        for part, row in zip(parts, cells, strict=True)
        for piece, cell in zip(pieces, row, strict=True)
    )
    if not far:
        return "Nothing differs."
    return f"The two differ most in {piece} of {part_in_words(part)}: {far:.2g}, relative."


def _low_rank(found: Diff) -> str:
    """In how many directions the most concentrated update goes."""
    counts = {
        f"{name} of layer {one.part}": (
            int((one.spectrum > 0.1 * one.spectrum[0]).sum()),
            len(one.spectrum),
        )
        for name, one in found.largest.items()
    }
    name = min(counts, key=lambda one: counts[one][0] / counts[one][1])
    few, all_of_them = counts[name]
    return (
        f"The most concentrated update is that of {name}: {few} of {all_of_them} singular values "
        "are above a tenth of the largest."
    )


def _spectra(found: Diff) -> Iterator[Figure]:
    """Singular values of the largest update of each kind of matrix."""
    largest = found.largest
    if not largest:
        return
    count = max(len(one.spectrum) for one in largest.values())
    series = {}
    for name, one in largest.items():
        top = max(float(one.spectrum[0]), 1e-300)
        values = [max(float(value) / top, _LOWEST) for value in one.spectrum]
        series[f"{name}, layer {one.part}"] = [*values, *[None] * (count - len(values))]
    figure = lines(
        "spectra",
        "Singular values of the update, relative to the largest",
        "Lines: the singular values of the largest update of each kind of matrix.",
        _low_rank(found),
        range(1, count + 1),
        series,
        y="singular value",
        log=True,
        first="direction",
        note="A steep drop shows an update of low rank. Values below one millionth are drawn at "
        "one millionth.",
    )
    plain = tuple({**trace, "mode": "lines"} for trace in figure.traces)
    yield replace(figure, traces=plain)
