"""Findings and the map of heads as blocks, for `segre diagnose` and for reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from segre.fields.interface import Array
from segre.inspect.diagnose import Diagnosis
from segre.report.analysis.charts import by_head, switched
from segre.report.inspection import beside
from segre.report.page.blocks import Figure, Items, Table

_MOST = 2000  # rows of the table of heads; the document has them all


def findings_block(found: Diagnosis) -> Iterator[Items]:
    """The findings, the most important first."""
    if found.findings:
        yield Items("", tuple(f"{one.what} {one.means}{beside(one)}" for one in found.findings))


def head_measures(found: Diagnosis) -> dict[str, Array]:
    """All measures of heads by their titles: (layers, heads) each."""
    return {one.title: found.values[one.key] for one in found.measured if one.axis == "head"}


def heads_block(
    found: Diagnosis | None,
    takeaway: str = "",
    more: Mapping[str, Array] | None = None,
    columns: Mapping[str, Array] | None = None,
) -> Figure:
    """One map of layers and heads, with a switch between measures and a panel for one head.

    `more` are measures that come first; `columns` are numbers that only the table has.
    """
    values = {**(more or {}), **({} if found is None else head_measures(found))}
    maps = {
        title: by_head(title, title, title, "", _rows(own), what="")
        for title, own in values.items()
    }
    alt = "A map of layers and heads, coloured by the chosen measure."
    numbers = _table({**(columns or {}), **values})
    said = takeaway or _extremes(*next(iter(values.items())))
    figure = switched("heads", "Layers and heads", alt, said, maps, numbers)
    details = None if found is None else found.heads
    return figure if details is None else replace(figure, heads=details.document())


def _extremes(title: str, values: Array) -> str:
    """Where the first measure of the map is largest, and how large it is elsewhere."""
    known = np.where(np.isfinite(values), values, -np.inf)
    layer, head = np.unravel_index(int(known.argmax()), known.shape)
    return (
        f"{title} is largest in head {head + 1} of layer {layer + 1}: {known.max():.3g}; the "
        f"median of all heads is {float(np.nanmedian(values)):.3g}."
    )


def _rows(values: Array) -> list[list[float]]:
    return [[float(value) for value in row] for row in values]


def _table(values: Mapping[str, Array]) -> Table:
    shape: Sequence[int] = next(iter(values.values())).shape
    rows = tuple(
        (layer + 1, head + 1, *(float(own[layer, head]) for own in values.values()))
        for layer, head in np.ndindex(*shape)
    )
    count = len(rows)
    title = f"The first {_MOST} of {count} heads" if count > _MOST else f"All {count} heads"
    names = ("layer", "head", *values)
    return Table("heads-numbers", title, names, rows[:_MOST], (True,) * len(names))
