"""The section on given weights: special points, conditions, and the stored gauge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from segre.analysis.part import Part
from segre.report.blocks import Block, Cell, Facts, Fold, Table
from segre.report.charts import Number, lines


def blocks(part: Part) -> Iterator[Block]:
    """The files, special points, and a table of layers."""
    data = part.data
    assert data is not None
    layers = data["measured"]["layers"]
    facts = Facts(tuple(_files(data)))
    special = tuple((layer["layer"], text) for layer in layers for text in layer["special"])
    if special:
        yield Table(
            "special-points",
            "Special points, or nearly",
            ("layer", "what is special"),
            special,
            (True, False),
            note="At these points more parameters are redundant than the formulas count.",
        )
    yield _conditions(part, layers)
    yield _table(layers)
    yield Fold("files", "The files", (facts,))


def _files(data: Any) -> Iterator[tuple[str, Cell, str]]:
    stored = data["parameters"]["stored"]
    yield "family", data["family"], ""
    yield "stored numbers", stored, ", ".join(f"{n:,} {kind}" for kind, n in data["types"].items())
    files = data["files"]
    yield "bytes", data["bytes"], files[0] if len(files) == 1 else f"in {len(files)} files"
    if data["copies"]:
        yield "copies", len(data["copies"]), "tensors stored twice"
    if data["unused"]:
        yield "unused", len(data["unused"]), "tensors that the function does not use"


def _worst(heads: list[dict[str, Any]]) -> Number:
    known = [head["condition"] for head in heads if head["condition"] is not None]
    return max(known, default=None)


def _qk(gauge: dict[str, Any]) -> Number:
    if gauge["planes"] is not None:
        return float(2 ** gauge["planes"])
    value = gauge["qk"]
    return None if value is None else float(value)


def _conditions(part: Part, layers: list[dict[str, Any]]) -> Block:
    series: dict[str, list[Number]] = {
        "what heads move (OV), worst head": [_worst(layer["OV"]) for layer in layers],
        "where heads look (QK), worst head": [_worst(layer["QK"]) for layer in layers],
        "stored basis of values": [layer["gauge"]["vo"] for layer in layers],
        "stored basis of scores": [_qk(layer["gauge"]) for layer in layers],
    }
    known = {name: values for name, values in series.items() if any(v is not None for v in values)}
    return lines(
        "conditions",
        "Condition numbers by layer",
        "Largest over smallest singular value of the worst head of each layer, and the condition "
        "of the stored bases, on a logarithmic scale.",
        part.takeaways["conditions"],
        [layer["layer"] for layer in layers],
        known,
        y="condition",
        log=True,
        dashed=[name for name in known if name.startswith("stored")],
        note="Solid lines are matrices that the function depends on. Dashed lines are the gauge: "
        "stored choices that no output depends on, compared with balanced ones (1). A canonical "
        "form sets them to 1.",
        height=300,
    )


def _table(layers: list[dict[str, Any]]) -> Table:
    rows = []
    for layer in layers:
        units = layer["units"]
        rows.append(
            (
                layer["layer"],
                min(head["rank"] for head in layer["OV"]),
                _worst(layer["OV"]),
                min(head["rank"] for head in layer["QK"]),
                _worst(layer["QK"]),
                layer["gauge"]["vo"],
                _qk(layer["gauge"]),
                None if units is None else len(units["dead"]),
                None if units is None else len(units["duplicates"]),
                len(layer["special"]),
            )
        )
    names = (
        "layer",
        "least OV rank",
        "worst OV condition",
        "least QK rank",
        "worst QK condition",
        "value gauge",
        "score gauge",
        "dead units",
        "double units",
        "special",
    )
    return Table("layers", "All layers", names, tuple(rows), (True,) * len(names), folded=True)
