"""The sections on the architecture: what it is, its bounds, its symmetries, its certificates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from segre.analysis.part import Part
from segre.analysis.redundancy import IN_WORDS
from segre.finding import GROUPS, Finding, labelled
from segre.report.blocks import (
    Blocks,
    Download,
    Fact,
    Facts,
    Figure,
    Fold,
    Items,
    Row,
    Say,
    Table,
    table,
)
from segre.report.charts import Number, axis, bars
from segre.report.dimensions import evidence_of

_HOLDS = {
    "exact": "always",
    "eps=0": "only at eps = 0",
    "softmax": "only after the output softmax",
}


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
            ("holds", lambda one: _HOLDS[one.get("holds", "exact")]),
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
    line = {"mode": "lines", "name": "weights with the same function", "x": x, "y": y}
    mark = {"mode": "markers", "name": fiber["weights"], "x": x[:1], "y": y[:1]}
    hover = {"hovertemplate": f"{fiber['weights']}<extra></extra>"}
    title = "A fiber: one function, many weights"
    return Figure(
        title,
        part.takeaways["fiber"],
        (
            {"type": "scatter", **line, "line": {"color": "@1", "width": 3}, "hoverinfo": "skip"},
            {"type": "scatter", **mark, "marker": {"color": "@2", "size": 11}, **hover},
        ),
        {
            "xaxis": axis(names[0], constrain="domain"),
            "yaxis": axis(names[1], scaleanchor="x", constrain="domain"),
            "showlegend": True,
        },
        Table(title, ("step", *names), tuple(zip(range(len(x)), x, y, strict=True)), (True,) * 3),
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
