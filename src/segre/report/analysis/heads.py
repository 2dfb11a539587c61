"""The section on heads: one map of all measures, and spectra."""

from __future__ import annotations

from collections.abc import Iterator
from math import log10
from typing import Any

import numpy as np

from segre.analysis.part import Part
from segre.fields.interface import Array
from segre.inspect.diagnose import Diagnosis
from segre.report.blocks import Block, Fold, Row
from segre.report.charts import by_head
from segre.report.diagnosis import heads_block, meanings

_MATRICES = {"OV": "W_O W_V: what a head moves", "QK": "W_Q' W_K: what a head looks for"}
_NUMBERS = ("norm", "rank", "condition")


def blocks(part: Part) -> Iterator[Block]:
    """The map of heads, what its measures are, and spectra by layer."""
    layers = part.found["layers"]
    ranks = {f"Stable rank of {name}": _of(layers, name, "stable_rank") for name in _MATRICES}
    rest = {f"{name} {key}": _of(layers, name, key) for name in _MATRICES for key in _NUMBERS}
    found = part.details if isinstance(part.details, Diagnosis) else None
    yield heads_block(found, part.takeaways["heads"], ranks, rest)
    most = {name: layers[0][name][0]["full_rank"] for name in _MATRICES}
    said = [
        (f"Stable rank of {name}", f"{words}. The number of directions that count, at most {n}.")
        for (name, words), n in zip(_MATRICES.items(), most.values(), strict=True)
    ]
    yield meanings("head", [*said, *((one["title"], one["how"]) for one in part.found["measures"])])
    spectra = tuple(_spectrum(part, name) for name in _MATRICES)
    yield Fold("spectra", "Spectra of OV and QK, by layer", (Row(spectra),))


def _of(layers: list[dict[str, Any]], name: str, key: str) -> Array:
    """One quantity of every head; NaN where it is not known."""
    return np.array([[head[key] for head in layer[name]] for layer in layers], dtype=float)


def _spectrum(part: Part, name: str) -> Block:
    rows = [
        [log10(value) if value > 0 else None for value in layer]
        for layer in part.found["spectra"][name]
    ]
    known = [value for row in rows for value in row if value is not None]
    return by_head(
        rows,
        what="log10",
        across="singular value",
        key=f"spectrum-{name}",
        title=f"Spectrum of {name}",
        alt="Decimal logarithms of singular values over the largest, by layer and place; the "
        f"smallest is {min(known, default=0):.1f}.",
        takeaway=part.takeaways[f"spectrum-{name}"],
        note="Singular values divided by the largest, on a logarithmic scale: the median over the "
        "heads of a layer.",
    )
