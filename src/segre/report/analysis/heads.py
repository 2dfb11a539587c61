"""The section on heads: maps of their spectra and patterns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import log10
from typing import Any

from segre.analysis.part import Part
from segre.report.analysis.charts import Number, by_head, switched
from segre.report.page.blocks import Block, Figure, Items, Table

_MATRICES = {
    "OV": ("values", "W_O W_V: what a head moves"),
    "QK": ("scores", "W_Q' W_K: what a head looks for"),
}
_MOST = 2000  # rows of the table of heads; the document has them all
_PATTERNS = {
    "first": (
        "Attention to the first token",
        "The mean share that queries give to the first token.",
    ),
    "entropy": (
        "How spread out patterns are",
        "1: every token that can be seen gets the same; 0: one token gets all.",
    ),
    "second": (
        "How far patterns are from making all tokens alike",
        "The largest singular value of the pattern without its mean row, over the largest of all: "
        "at 0 a head writes the same for every token.",
    ),
}


def blocks(part: Part) -> Iterator[Block]:
    """Maps of stable ranks, spectra and patterns, and all heads in a table."""
    assert part.data is not None
    layers, patterns = part.data["layers"], part.data["patterns"]
    maps = {f"Stable rank of {name}": _ranks(layers, name) for name in _MATRICES}
    if patterns is not None:
        maps |= {title: _pattern(patterns, key) for key, (title, _) in _PATTERNS.items()}
    table = _table(layers, patterns)
    flat = [head["stable_rank"] for layer in layers for head in layer["OV"]]
    yield switched(
        "by-head",
        "Layers and heads",
        "A map of layers and heads, coloured by what is chosen; the stable rank of OV goes from "
        f"{min(flat):.1f} to {max(flat):.1f}.",
        maps,
        replace(table, folded=False),
    )
    yield Items("", tuple(f"{title}: {figure.note}" for title, figure in maps.items()))
    for name in _MATRICES:
        yield _spectrum(part.data["spectra"][name], name)


def _ranks(layers: list[dict[str, Any]], name: str) -> Figure:
    what, remark = _MATRICES[name]
    full = layers[0][name][0]["full_rank"]
    return by_head(
        f"rank-{name}",
        f"Stable rank of {name}",
        "",
        [[head["stable_rank"] for head in layer[name]] for layer in layers],
        what="",
        note=f"{remark}. Its stable rank is the number of directions that count ({what}), at most "
        f"{full}.",
    )


def _spectrum(spectra: list[list[float]], name: str) -> Block:
    rows: list[list[Number]] = [
        [log10(value) if value > 0 else None for value in layer] for layer in spectra
    ]
    known = [value for row in rows for value in row if value is not None]
    return by_head(
        f"spectrum-{name}",
        f"Spectrum of {name}",
        "Decimal logarithms of singular values over the largest, by layer and place; the smallest "
        f"is {min(known, default=0):.1f}.",
        rows,
        what="log10",
        across="singular value",
        note="Medians over the heads of a layer, of singular values over the largest.",
    )


def _pattern(patterns: list[list[dict[str, float]]], key: str) -> Figure:
    title, note = _PATTERNS[key]
    values = [[head[key] for head in layer] for layer in patterns]
    return by_head(f"pattern-{key}", title, "", values, what="", note=note)


def _table(layers: list[dict[str, Any]], patterns: list[list[dict[str, float]]] | None) -> Table:
    shown = ("norm", "stable_rank", "rank", "condition")
    seen = ("entropy", "distance", "itself", "first", "second", "rank") if patterns else ()
    names = ["layer", "head"]
    names += [f"{name} {key.replace('_', ' ')}" for name in _MATRICES for key in shown]
    names += [_PATTERN_NAMES[key] for key in seen]
    rows = []
    for place, layer in enumerate(layers):
        for head, _ in enumerate(layer["OV"]):
            cells = [layer[name][head][key] for name in _MATRICES for key in shown]
            if patterns:
                cells += [patterns[place][head][key] for key in seen]
            rows.append((layer["layer"], head + 1, *cells))
    some = (
        f"The first {_MOST} of {len(rows)} heads" if len(rows) > _MOST else f"All {len(rows)} heads"
    )
    return Table(
        "heads",
        some,
        tuple(names),
        tuple(rows[:_MOST]),
        (True,) * len(names),
        folded=True,
        note="Of patterns: entropy as a share of the largest possible, mean distance in tokens, "
        "share of a token itself and of the first, second: as above, stable rank.",
    )


_PATTERN_NAMES = {
    "entropy": "pattern entropy",
    "distance": "mean distance",
    "itself": "share of itself",
    "first": "share of the first",
    "second": "pattern second",
    "rank": "pattern stable rank",
}
