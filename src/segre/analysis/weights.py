"""Are these weights special? Strata, dead and double units, conditioning of what is stored."""

from __future__ import annotations

import re

from segre.analysis.part import Answer
from segre.analysis.workbench import Workbench
from segre.checkpoint.info import DEGENERATE, Info

_NEARLY = re.compile("nearly|almost")  # how `segre.checkpoint.info` says that it is not exactly so


def what_weights_are_like(bench: Workbench) -> Answer:
    """Special points, where more is redundant than counted, and the condition of stored bases."""
    info = bench.info
    document = info.document()
    return Answer(
        status="measured",
        lead=_lead(info),
        how=f"Ranks and coincidences are read off the stored weights, which are rounded to "
        f"{info.roundoff:.1g}: weights that are special up to rounding are called nearly special. "
        "The gauge compares stored bases with balanced ones; 1 is balanced.",
        command=f"segre model info {bench.argument}",
        data={
            key: document[key]
            for key in ("name", "family", "parameters", "bytes", "types", "files", "copies")
        }
        | {"unused": document["unused"], "measured": document["measured"]}
        | {
            "special": {
                "exactly": len(special_layers(info)),
                "nearly": len(nearly_special_layers(info)),
            }
        },
        takeaways={"conditions": _conditions(info)},
        details=info,
    )


def special_layers(info: Info) -> list[int]:
    """The layers at special points."""
    return [
        layer.number for layer in info.layers if any(not _NEARLY.search(x) for x in layer.special)
    ]


def nearly_special_layers(info: Info) -> list[int]:
    """The layers that are nearly at special points, and not at any."""
    return [
        layer.number
        for layer in info.layers
        if layer.special and all(_NEARLY.search(x) for x in layer.special)
    ]


def _conditions(info: Info) -> str:
    """Where the worst condition number is, and what that means."""
    worst, where, name = max(
        (head.condition or 1.0, layer.number, name)
        for layer in info.layers
        for name, heads in (("OV", layer.ov), ("QK", layer.qk))
        for head in heads
    )
    lost = 1 / info.roundoff
    if worst > lost:
        end = "so large that the stored precision cannot rule out rank deficiency."
    elif worst > DEGENERATE:
        end = "so that a direction is nearly lost."
    else:
        end = (
            "far from losing a direction to rounding."
            if worst < lost / 100
            else ("close to what the stored precision can tell.")
        )
    return f"The worst condition number of a head is {worst:.3g} ({name} in layer {where}), {end}"


def _lead(info: Info) -> str:
    special = [(layer.number, text) for layer in info.layers for text in layer.special]
    if not special:
        return "No special points were found: up to rounding, these weights are generic."
    layers = len({number for number, _ in special})
    number, text = special[0]
    are = "is" if layers == 1 else "are"
    return (
        f"{layers} of {len(info.layers)} layers {are} at special points, or nearly, where more "
        f"parameters are redundant than counted: in layer {number}, {text}."
    )
