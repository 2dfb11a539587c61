"""An analysis: what is seen first, then a section for every part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log10
from typing import Any

import numpy as np

from segre.analysis.part import Part
from segre.analysis.run import Analysis
from segre.fields.interface import Array
from segre.finding import Finding
from segre.report import architecture, checkpoints, depth, paths
from segre.report.blocks import (
    Block,
    Blocks,
    Facts,
    Fold,
    Items,
    Parts,
    Row,
    Say,
    Section,
    Tile,
    Title,
    table,
)
from segre.report.charts import by_head
from segre.report.diagnosis import findings_block, heads_block, meanings
from segre.report.dimensions import redundant_tile, status_in_words, value_in_words
from segre.report.views import data, elsewhere, terminal, view

_SHORT = {
    "findings": "Findings",
    "redundancy": "Redundancy",
    "weights": "Weights",
    "depth": "Depth",
    "dimension": "Dimension",
}


@view
def of_analysis(found: Analysis) -> Blocks:
    """The answers in short; elsewhere in full, and the page has the plots."""
    yield Title(found.name)
    if str(found.spec) != found.name:
        yield Title(str(found.spec), style="dim")
    yield Say()
    yield terminal(Parts(tuple(map(_in_short, found.parts))))
    yield elsewhere(Facts(tuple(tiles(found))), *map(section_of, found.parts))
    yield Say()
    if found.command:
        yield elsewhere(Say(f"With all plots and tables, as a page: `{found.command}`"))
    columns = ("part: key", "question: title", "status: label", "answer: lead")
    yield data([table(found.name, found.parts, *columns, "how", "reason", "seconds")])


@view
def of_part(part: Part) -> Blocks:
    """One of the answers, and how it is known."""
    section = section_of(part)
    yield Title(part.title, part.label, terminal=False)
    yield terminal(Parts((_in_short(part),)))
    yield elsewhere(Say(part.lead or section.reason), *section.blocks)
    if part.how:
        yield Say(part.how, "dim")
    if part.command:
        yield Say(part.command, "dim")


def _in_short(part: Part) -> Section:
    """The answer with what its plots add to it, and the findings by number."""
    data = part.data or {}
    adding = {"weights": ("conditions",), "depth": ("depth", "what-if")}  # others repeat the answer
    added = () if data.get("kind") == "stack" else adding.get(part.key, ())
    more = [part.takeaways[key] for key in added if key in part.takeaways]
    found = [f"{number}. {one['what']}" for number, one in enumerate(data.get("findings", ()), 1)]
    said = "\n".join([" ".join([part.lead or part.reason, *more]), *found])
    title = _SHORT.get(part.key, part.title)
    lead, reason = (said, "") if part.lead else ("", said)
    return Section(part.key, title, part.label, lead, reason=reason)


def section_of(part: Part) -> Section:
    """A part of an analysis, and what it is shown by."""
    blocks: tuple[Block, ...] = ()
    if part.data is not None:
        blocks = tuple(_BLOCKS[part.key](part))
        if part.key != "depth":  # it shows its notes itself
            notes = (Items("", part.notes),) if len(part.notes) > 1 else map(Say, part.notes)
            blocks = (*blocks, *notes)
    reason = f"{part.reason[:1].upper()}{part.reason[1:]}"
    seconds = 0.0 if part.data is None else part.seconds
    said = (part.key, part.title, part.label, part.lead, part.how, part.command)
    return Section(*said, blocks, reason, seconds)


# --- heads ----------------------------------------------------------------------------------------

_MATRICES = {"OV": "W_O W_V: what a head moves", "QK": "W_Q' W_K: what a head looks for"}
_NUMBERS = ("norm", "rank", "condition")


def of_heads(part: Part) -> Blocks:
    """The map of heads, what its measures are, and spectra by layer."""
    layers = part.found["layers"]
    ranks = {f"Stable rank of {name}": _of(layers, name, "stable_rank") for name in _MATRICES}
    rest = {f"{name} {key}": _of(layers, name, key) for name in _MATRICES for key in _NUMBERS}
    yield heads_block(part.details, part.takeaways["heads"], ranks, rest)
    most = {name: layers[0][name][0]["full_rank"] for name in _MATRICES}
    said = [
        (f"Stable rank of {name}", f"{words}. The number of directions that count, at most {n}.")
        for (name, words), n in zip(_MATRICES.items(), most.values(), strict=True)
    ]
    yield meanings([*said, *((one["title"], one["how"]) for one in part.found["measures"])])
    spectra = tuple(_spectrum(part, name) for name in _MATRICES)
    yield Fold("Spectra of OV and QK, by layer", (Row(spectra),))


def _of(layers: list[dict[str, Any]], name: str, key: str) -> Array:
    """One quantity of every head; NaN where it is not known."""
    return np.array([[head[key] for head in layer[name]] for layer in layers], dtype=float)


def _spectrum(part: Part, name: str) -> Block:
    rows = [
        [log10(value) if value > 0 else None for value in layer]
        for layer in part.found["spectra"][name]
    ]
    return by_head(
        f"Spectrum of {name}",
        rows,
        what="log10",
        across="singular value",
        takeaway=part.takeaways[f"spectrum-{name}"],
        note="Singular values divided by the largest, on a logarithmic scale: the median over the "
        "heads of a layer.",
    )


# --- what is seen first ---------------------------------------------------------------------------


def tiles(analysis: Analysis) -> Iterator[Tile]:
    """The numbers to see first, of the parts that ran."""
    yield Tile("Parameters", f"{analysis.spec.parameters:,}", "exact")
    ran = {part.key: part for part in analysis.parts if part.data is not None}
    if part := ran.get("findings"):
        remark = f"on {part.found['inputs']['tokens']} tokens"
        yield Tile("Things that stand out", str(len(part.found["findings"])), part.status, remark)
    if part := ran.get("dimension"):
        found: Finding = part.details
        dimension = value_in_words(found).replace("..", " to ")
        yield Tile("Functional dimension", dimension, part.label, status_in_words(found))
        yield from redundant_tile(found)
    if part := ran.get("proof"):
        yield _certificate(part)
    if part := ran.get("depth"):
        value, remark = depth.verdict(part.details)
        yield Tile("Tokens with depth", value, part.status, remark)
    if part := ran.get("weights"):
        exactly, nearly = part.found["special"]["exactly"], part.found["special"]["nearly"]
        value = f"nearly: {nearly}" if nearly and not exactly else str(exactly)
        remark = f"of {len(part.found['measured']['layers'])}"
        remark += f"; nearly: {nearly}" if nearly and exactly else ""
        yield Tile("Layers with extra redundancy", value, part.status, remark)


def _certificate(part: Part) -> Tile:
    if part.found["of"] == "itself":
        computed = part.proved_by != "theorem"
        checked = "the computation" if computed else "hypotheses and count, not the theorem,"
        return Tile("Certificate", "valid", part.label, f"{checked} checked by independent code")
    valid = sum(one["valid"] for one in part.found["instances"])
    networks = "network" if valid == 1 else "networks"
    remark = f"but valid for {valid} small {networks} of the same design"
    return Tile("Certificate", "none at this size", part.status, remark)


_BLOCKS: dict[str, Callable[[Part], Blocks]] = {
    "findings": lambda part: iter([findings_block(part.details)]),
    "what": architecture.of_choices,
    "dimension": architecture.of_bounds,
    "redundancy": architecture.of_symmetries,
    "proof": architecture.of_certificates,
    "depth": depth.section,
    "heads": of_heads,
    "paths": paths.section,
    "weights": lambda part: checkpoints.section(part.details, part.takeaways["conditions"]),
}
