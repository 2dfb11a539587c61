"""The sections on findings and on heads: one map of all measures, and spectra."""

from __future__ import annotations

from collections.abc import Iterator
from math import log10
from typing import Any

import numpy as np

from segre.analysis.part import Part
from segre.fields.interface import Array
from segre.inspect.diagnose import Diagnosis
from segre.report.blocks import Block, Fold, Row, Table
from segre.report.charts import Number, by_head
from segre.report.inspection import findings_block
from segre.report.inspection_page import heads_block

_MATRICES = {
    "OV": "W_O W_V: what a head moves",
    "QK": "W_Q' W_K: what a head looks for",
}
_NUMBERS = ("norm", "rank", "condition")


def of_findings(part: Part) -> Iterator[Block]:
    """What stands out, as `segre model diagnose` says it."""
    if isinstance(part.details, Diagnosis):
        yield findings_block(part.details)


def blocks(part: Part) -> Iterator[Block]:
    """The map of heads, what its measures are, and spectra by layer."""
    assert part.data is not None
    layers = part.data["layers"]
    found = part.details if isinstance(part.details, Diagnosis) else None
    ranks = {f"Stable rank of {name}": _of(layers, name, "stable_rank") for name in _MATRICES}
    rest = {f"{name} {key}": _of(layers, name, key) for name in _MATRICES for key in _NUMBERS}
    yield heads_block(found, part.takeaways["heads"], ranks, rest)
    yield _meanings(part, layers)
    spectra = (_spectrum(part, name) for name in _MATRICES)
    yield Fold("spectra", "Spectra of OV and QK, by layer", (Row(tuple(spectra)),))


def _of(layers: list[dict[str, Any]], name: str, key: str) -> Array:
    """One quantity of every head; NaN where it is not known."""
    rows = [[head[key] for head in layer[name]] for layer in layers]
    return np.array([[np.nan if value is None else value for value in row] for row in rows])


def _meanings(part: Part, layers: list[dict[str, Any]]) -> Table:
    assert part.data is not None
    rows = [
        (
            f"Stable rank of {name}",
            f"{words}. The number of directions that count, at most "
            f"{layers[0][name][0]['full_rank']}.",
        )
        for name, words in _MATRICES.items()
    ]
    rows += [(one["title"], one["how"]) for one in part.data["measures"]]
    return Table(
        "head-meanings",
        "What the measures are",
        ("measure", "how it is computed"),
        tuple(rows),
        folded=True,
    )


def _spectrum(part: Part, name: str) -> Block:
    assert part.data is not None
    rows: list[list[Number]] = [
        [log10(value) if value > 0 else None for value in layer]
        for layer in part.data["spectra"][name]
    ]
    known = [value for row in rows for value in row if value is not None]
    return by_head(
        f"spectrum-{name}",
        f"Spectrum of {name}",
        "Decimal logarithms of singular values over the largest, by layer and place; the smallest "
        f"is {min(known, default=0):.1f}.",
        part.takeaways[f"spectrum-{name}"],
        rows,
        what="log10",
        across="singular value",
        note="Singular values divided by the largest, on a logarithmic scale: the median over the "
        "heads of a layer.",
    )
