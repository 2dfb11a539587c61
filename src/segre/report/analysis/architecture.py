"""The sections on the architecture: what it is, its bounds, its symmetries, its certificates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from segre.analysis.part import Part
from segre.finding import GROUPS
from segre.report.analysis.charts import bars
from segre.report.page.blocks import Block, Cell, Download, Facts, Items, Table

_HOLDS = {
    "exact": "always",
    "eps=0": "only at eps = 0",
    "softmax": "only after the output softmax",
}


def of_choices(part: Part) -> Iterator[Block]:
    """Design choices, and where the parameters are."""
    assert part.data is not None
    yield Facts(tuple((name, value, remark) for name, value, remark in part.data["choices"]))
    pieces: dict[str, int] = part.data["pieces"]
    total = sum(pieces.values())
    largest = max(pieces, key=lambda name: pieces[name])
    yield bars(
        "parameters-by-piece",
        "Where the parameters are",
        f"{len(pieces)} pieces; the largest is {largest} with {pieces[largest]:,} of {total:,}.",
        pieces,
        unit="parameters",
        numbers=Table(
            "parameters-by-piece-numbers",
            "Where the parameters are",
            ("piece", "parameters", "share in %"),
            tuple((name, count, 100 * count / total) for name, count in pieces.items()),
            (False, True, True),
        ),
    )


def of_bounds(part: Part) -> Iterator[Block]:
    """The two bounds and their evidence."""
    data = part.data
    assert data is not None
    rows: list[tuple[str, Cell, str]] = [("parameters", data["parameters"], "")]
    for side in ("lower", "upper"):
        evidence = data["evidence"][side]
        if data[side] is not None:
            rows.append((f"{side} bound", data[side], evidence["statement"]))
    theorem = None if data["lower"] is None else data["evidence"]["lower"].get("theorem")
    if data["lower"] is not None and theorem is None:
        rows.append(("seed", data["seed"], "of the random point"))
    yield Facts(tuple(rows))
    if theorem is not None:
        yield hypotheses_table(theorem)


def hypotheses_table(theorem: Mapping[str, Any]) -> Table:
    """What the theorem asks for, with the numbers of this architecture."""
    rows = tuple(
        (one["name"], one["says"], one["left"], one["relation"], one["right"])
        for one in theorem["hypotheses"]
    )
    title = f"Hypotheses of theorem {theorem['name']}: all hold"
    names = ("hypothesis", "says", "left", "", "right")
    return Table("hypotheses", title, names, rows, (False, False, True, False, True))


def of_symmetries(part: Part) -> Iterator[Block]:
    """Symmetries by piece, those that are discrete, and what the design choices do."""
    data = part.data
    assert data is not None
    symmetries = [one for one in data["symmetries"] if one["dimension"]]
    if symmetries:
        yield _symmetry_bars(symmetries)
        yield _symmetry_table(symmetries)
    if data.get("choices"):
        yield _choice_table(data["choices"])
    if data.get("discrete"):
        rows = tuple((one["group"], one["what"], one["places"]) for one in data["discrete"])
        yield Table(
            "discrete-symmetries",
            "Discrete symmetries, beside these",
            ("group", "of", "places"),
            rows,
            (False, False, True),
            folded=True,
        )


def _symmetry_bars(symmetries: list[dict[str, Any]]) -> Block:
    """By piece of a transformer, by kind of symmetry of a stack."""
    of_transformer = "holds" in symmetries[0]
    named = dict.fromkeys(GROUPS, 0) if of_transformer else {}
    for one in symmetries:
        name = one["group"] if of_transformer else one["name"]
        named[name] = named.get(name, 0) + one["dimension"]
    shown = {name: count for name, count in named.items() if count}
    largest = max(shown, key=lambda name: shown[name])
    return bars(
        "redundant-by-piece",
        "Redundant parameters by piece" if of_transformer else "Redundant parameters by symmetry",
        f"The largest of {len(shown)} is {largest} with {shown[largest]:,}.",
        shown,
        unit="redundant parameters",
    )


def _symmetry_table(symmetries: list[dict[str, Any]]) -> Table:
    if "holds" in symmetries[0]:
        return Table(
            "symmetries",
            "All continuous symmetries",
            ("piece", "symmetry", "where", "dimensions", "holds"),
            tuple(
                (one["group"], one["name"], one["where"], one["dimension"], _HOLDS[one["holds"]])
                for one in symmetries
            ),
            (False, False, False, True, False),
        )
    return Table(
        "symmetries",
        "All continuous symmetries, and what gradient flow conserves by each",
        ("symmetry", "where", "dimensions", "conserved", "scalars"),
        tuple(
            (one["name"], one["where"], one["dimension"], one["conserved"] or "", one["count"])
            for one in symmetries
        ),
        (False, False, True, False, True),
    )


def _choice_table(choices: list[dict[str, Any]]) -> Table:
    """What each choice adds to the redundant parameters: the change with it, not without it."""
    named = dict.fromkeys((*GROUPS, *(group for one in choices for group in one["change"])))
    groups = [group for group in named if any(one["change"].get(group) for one in choices)]
    rows = tuple(
        (
            f"{one['choice']}, instead of {one['instead_of']}",
            *(-one["change"].get(group, 0) for group in groups),
            -one["total"],
        )
        for one in choices
    )
    return Table(
        "design-choices",
        "What each design choice does to redundancy",
        ("choice", *groups, "all"),
        rows,
        (False, *(True,) * (len(groups) + 1)),
        note="Redundant parameters with the choice minus those without it: a negative number says "
        "that the choice removes symmetries, a positive one that it adds some.",
    )


def of_certificates(part: Part) -> Iterator[Block]:
    """What was certified, what the referee checked, and the certificates themselves."""
    data = part.data
    assert data is not None
    instances = data["instances"]
    if data["of"] != "itself":
        yield Table(
            "small-certificates",
            "Small networks of the same design",
            ("network", "parameters", "lower bound", "upper bound", "status", "referee"),
            tuple(
                (
                    one["name"],
                    one["parameters"],
                    one["lower"],
                    one["upper"],
                    one["status"],
                    "valid" if one["valid"] else "invalid",
                )
                for one in instances
            ),
            (False, True, True, True, False, False),
        )
    yield Items("The referee checked", tuple(instances[-1]["checks"]))
    for number, certificate in enumerate(data["certificates"], 1):
        name = "certificate.json" if len(instances) == 1 else f"certificate-{number}.json"
        yield Download(
            name, "Certificate" if len(instances) == 1 else f"Certificate {number}", certificate
        )
