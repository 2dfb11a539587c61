"""Are these weights special? Strata, dead and double units, conditioning of what is stored."""

from __future__ import annotations

from segre.analysis.part import Answer
from segre.analysis.workbench import Workbench
from segre.checkpoint.info import Info


def what_weights_are_like(bench: Workbench) -> Answer:
    """Special points, where more is redundant than counted, and how well stored bases behave."""
    info = bench.info
    document = info.document()
    return Answer(
        status="measured",
        lead=_lead(info),
        how=f"Ranks and coincidences are read off the stored weights, which are rounded to "
        f"{info.roundoff:.1g}: what is nearly special is said to be nearly so. Gauges compare the "
        "stored bases with balanced ones; 1 is balanced.",
        command=f"segre weights info {bench.target.argument}",
        data={
            key: document[key]
            for key in ("name", "family", "parameters", "bytes", "types", "files", "copies")
        }
        | {"unused": document["unused"], "measured": document["measured"]},
    )


def _lead(info: Info) -> str:
    special = [(layer.number, text) for layer in info.layers for text in layer.special]
    worst = max(head.condition or 1.0 for layer in info.layers for head in (*layer.ov, *layer.qk))
    conditioned = f"The worst condition of a head's matrix is {worst:.3g}."
    if not special:
        return f"No special points found: up to rounding, these weights are generic. {conditioned}"
    layers = len({number for number, _ in special})
    number, text = special[0]
    return (
        f"Special points, or nearly, in {layers} of {len(info.layers)} layers, where more is "
        f"redundant than counted: in layer {number}, {text}. {conditioned}"
    )
