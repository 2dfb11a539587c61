"""An analysis: what is seen first, then a section for every part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import log10
from typing import Any

import numpy as np

from segre.analysis.part import Part
from segre.analysis.redundancy import IN_WORDS
from segre.analysis.run import Analysis
from segre.fields.interface import Array
from segre.finding import GROUPS, Finding, labelled
from segre.report import checkpoints, depth, paths
from segre.report.blocks import (
    Block,
    Blocks,
    Download,
    Fact,
    Facts,
    Figure,
    Fold,
    Items,
    Parts,
    Row,
    Say,
    Section,
    Table,
    Tile,
    Title,
    table,
)
from segre.report.charts import Number, axis, bars, by_head, curve, figure
from segre.report.diagnosis import findings_block, heads_block, meanings
from segre.report.dimensions import (
    ONLY,
    evidence_of,
    redundant_tile,
    status_in_words,
    value_in_words,
)
from segre.report.views import data, elsewhere, terminal, view
from segre.values import counted

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
    remark = f"but valid for {counted(valid, 'small network')} of the same design"
    return Tile("Certificate", "none at this size", part.status, remark)


def of_choices(part: Part) -> Blocks:
    """Design choices, and where the parameters are."""
    pieces: dict[str, int] = part.found["pieces"]
    total = sum(pieces.values())
    numbers = table(
        "",
        pieces.items(),
        ("piece", lambda one: one[0]),
        ("parameters", lambda one: one[1]),
        ("share in %", lambda one: 100 * one[1] / total),
    )
    figure = bars(
        "Where the parameters are",
        list(pieces),
        {"parameters": list(pieces.values())},
        unit="parameters",
        numbers=numbers,
        takeaway=part.takeaways["parameters-by-piece"],
    )
    yield Row((Facts(tuple(map(tuple, part.found["choices"]))), figure))


def of_bounds(part: Part) -> Blocks:
    """The bounds and their evidence."""
    found: Finding = part.details
    facts: list[Fact] = [("parameters", found.parameters, ""), *evidence_of(found)]
    if found.lower is not None and found.theorem is None:
        facts.append(("seed", found.seed, "of the random point"))
    yield Fold("The bounds, and what they rest on", (Facts(tuple(facts)),))


def of_symmetries(part: Part) -> Blocks:
    """Symmetries by piece, those that are discrete, and what the design choices do."""
    data = part.found
    symmetries = [one for one in data["symmetries"] if one["dimension"]]
    if symmetries:
        picture = _picture(part, symmetries)
        yield picture if data["fiber"] is None else Row((picture, _fiber(part)))
    if "design-choices" in part.takeaways:
        yield Say(part.takeaways["design-choices"])
    if symmetries:
        yield table(
            "All continuous symmetries",
            symmetries,
            ("piece", lambda one: IN_WORDS.get(one.get("group", ""), "")),
            *("symmetry: name", "where", "dimensions: dimension"),
            ("holds", lambda one: ONLY.get(one.get("holds", ""), "always")),
            folded=True,
        )
    if data.get("conserved"):
        yield table(
            "What gradient flow conserves by each symmetry",
            data["conserved"]["laws"],
            *("symmetry: name", "where"),
            ("conserved", lambda one: one["formula"] or ""),
            "scalars: count",
            folded=True,
        )
    if data.get("choices"):
        yield from _choices(data["choices"])
    if data.get("discrete"):
        title = "Discrete symmetries, in addition to these"
        yield table(title, data["discrete"], "group", "of: what", "places", folded=True)


def _picture(part: Part, symmetries: list[dict[str, Any]]) -> Figure:
    """All parameters, and the redundant ones: by piece of a transformer, by kind for a stack."""
    named = dict.fromkeys(IN_WORDS.values(), 0)
    for one in symmetries:
        name = IN_WORDS.get(one.get("group", ""), one["name"])
        named[name] = named.get(name, 0) + one["dimension"]
    pieces = {name: count for name, count in named.items() if count}
    redundant = sum(pieces.values())
    known = {"bounded": ", at most", "estimated": ", about"}.get(part.status, "")
    known = f", {part.status}" if part.status in ("certain", "likely") else known
    upper: int = part.found["upper"]
    whole = {f"functional dimension{known}": upper, "symmetries": redundant}
    if (rest := part.found["parameters"] - upper - redundant) > 0:
        whole["redundant without a listed symmetry"] = rest
    counts = [
        (place, name, piece, count, 100 * count / sum(split.values()))
        for place, (name, split) in enumerate((("all parameters", whole), ("symmetries", pieces)))
        for piece, count in split.items()
    ]
    shares: dict[str, list[Number]] = {}
    for place, _, piece, _, share in counts:
        shares.setdefault(piece, [None, None])[place] = share
    rows = tuple(row[1:] for row in counts)
    drawn = bars(
        "How the parameters split: function and symmetries",
        ("all parameters", "symmetries"),
        shares,
        unit="share",
        numbers=Table("", ("of", "piece", "parameters", "share in %"), rows),
        takeaway=part.takeaways["redundant-by-piece"],
        note="The first bar is all parameters. The second is its part called symmetries, enlarged: "
        "each piece is a group of changes that leave the function as it is.",
    )
    shown = axis("share", range=[0, 100.5], ticksuffix=" %", dtick=25)
    layout = {**drawn.layout, "margin": {"r": 28}, "xaxis": shown, "bargap": 0.45}
    return replace(drawn, layout=layout, height=190)


def _fiber(part: Part) -> Figure:
    """A closed curve of weights with the same function, in two of them."""
    fiber = part.found["fiber"]
    names, (x, y) = fiber["names"], zip(*fiber["curve"], strict=True)
    hover = f"{fiber['weights']}<extra></extra>"
    mark: dict[str, Any] = {
        "mode": "markers",
        "name": fiber["weights"],
        "marker": {"color": "@2", "size": 11},
    }
    title = "A fiber: one function, many weights"
    return figure(
        title,
        (
            curve(x, y, width=3, name="weights with the same function", hoverinfo="skip"),
            curve(x[:1], y[:1], hovertemplate=hover, **mark),
        ),
        {
            "xaxis": axis(names[0], constrain="domain"),
            "yaxis": axis(names[1], scaleanchor="x", constrain="domain"),
            "showlegend": True,
        },
        Table("", ("step", *names), tuple(zip(range(len(x)), x, y, strict=True)), (True,) * 3),
        takeaway=part.takeaways["fiber"],
        height=280,
        note=f"Two of the weights of {fiber['where']} while a basis inside it is rotated and "
        "stretched, and the matrix on the other side is rotated back. The curve is one of many on "
        "the fiber, whose dimension is the number of symmetries.",
        status="measured",
    )


def _choices(choices: list[dict[str, Any]]) -> Blocks:
    """What each choice adds to the redundant parameters: the change with it, not without it."""
    named = dict.fromkeys((*GROUPS, *(group for one in choices for group in one["change"])))
    groups = [group for group in named if any(one["change"].get(group) for one in choices)]
    yield table(
        "What each design choice does to redundancy",
        choices,
        ("choice", lambda one: f"{one['choice']}, instead of {one['instead_of']}"),
        *((IN_WORDS.get(g, g), lambda one, g=g: -one["change"].get(g, 0)) for g in groups),
        ("all", lambda one: -one["total"]),
        note="Redundant parameters with the choice minus those without it. A choice with a "
        "negative number removes symmetries, one with a positive number adds some.",
        folded=True,
    )


def of_certificates(part: Part) -> Blocks:
    """What was certified, what the kernel checked, and the certificates themselves."""
    data = part.found
    instances = data["instances"]
    if data["of"] != "itself":
        yield table(
            "Small networks of the same design",
            instances,
            *("network: name", "parameters", "lower bound: lower", "upper bound: upper"),
            ("status", lambda one: labelled(one["status"], one["proved_by"])),
            ("kernel", lambda one: "valid" if one["valid"] else "invalid"),
        )
    yield Fold("What the kernel checked", (Items("", tuple(instances[-1]["checks"])),))
    for number, certificate in enumerate(data["certificates"], 1):
        own = f" {number}" if len(instances) > 1 else ""
        name = f"Certificate{own}"
        yield Download(f"{name.lower().replace(' ', '-')}.json", name, certificate)


_BLOCKS: dict[str, Callable[[Part], Blocks]] = {
    "findings": lambda part: iter([findings_block(part.details)]),
    "what": of_choices,
    "dimension": of_bounds,
    "redundancy": of_symmetries,
    "proof": of_certificates,
    "depth": depth.section,
    "heads": of_heads,
    "paths": paths.section,
    "weights": lambda part: checkpoints.section(part.details, part.takeaways["conditions"]),
}
