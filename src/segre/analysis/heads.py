"""What stands out, what do the heads do, and are the weights special?

Spectra, and what one forward pass shows; strata, dead and double units, conditioning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from segre.analysis.part import Part
from segre.analysis.workbench import Workbench
from segre.checkpoint.info import DEGENERATE, Info, Product
from segre.checkpoint.inputs import RANDOM
from segre.errors import CheckpointError, SegreError
from segre.fields.interface import Array
from segre.inspect.diagnose import LENGTH, Diagnosis
from segre.inspect.measures.heads import SINK

EVEN = 0.9  # of the largest entropy: attention that is spread nearly evenly


def what_stands_out(bench: Workbench) -> Part:
    """Findings of one recorded pass, the most important first, and measures by depth."""
    found = bench.diagnosis
    document = found.document()
    length = None if found.tokens == LENGTH else bench.length
    options = bench.options(length=length, text=bench.text_given, seed=bench.seed)
    return Part(
        status="measured",
        lead=found.in_words,
        how=f"Measured in one forward pass on {_tokens(found)}, in double "
        "precision. Each kind of finding has a threshold of its own.",
        command=f"segre model diagnose {bench.argument}{options}",
        data={
            "inputs": document["inputs"],
            "loss": found.loss,
            "findings": document["findings"],
            "measures": [one for one in document["measures"] if one["axis"] != "head"],
        },
        details=found,
    )


def _tokens(found: Diagnosis) -> str:
    random = found.inputs == RANDOM
    return f"{found.tokens} {RANDOM}" if random else f"{found.tokens} tokens of {found.inputs}"


def what_heads_do(bench: Workbench) -> Part:
    """Singular values of OV and QK of every head, and all measures of heads of one pass."""
    info = bench.info
    found: Diagnosis | None = None
    missing = ""
    try:
        found = bench.diagnosis
    except CheckpointError:  # bad input
        raise
    except SegreError as error:  # too large to run, or numbers that are not finite
        missing = str(error)
    measured = [] if found is None else found.document()["measures"]
    return Part(
        status="measured",
        lead=_lead(info, {} if found is None else found.values),
        how="Singular values of W_O W_V and W_Q' W_K are computed in double precision, with the "
        "norms folded in."
        + (
            ""
            if found is None
            else f" Everything else comes from one forward pass on {found.tokens} tokens."
        ),
        command=bench.command(["heads"]),
        data={
            "layers": [
                {
                    "layer": layer.number,
                    "OV": [head.document() for head in layer.ov],
                    "QK": [head.document() for head in layer.qk],
                }
                for layer in info.layers
            ],
            "spectra": {
                "OV": [spectrum(layer.ov) for layer in info.layers],
                "QK": [spectrum(layer.qk) for layer in info.layers],
            },
            "measures": [one for one in measured if one["axis"] == "head"],
        },
        notes=(f"Attention patterns are not shown: {missing}.",) if missing else (),
        takeaways=_takeaways(info),
        details=found,
    )


def spectrum(heads: tuple[Product, ...]) -> list[float]:
    """Medians over the heads of a layer of singular values over the largest.

    >>> spectrum((Product((2.0, 1.0), 2), Product((4.0, 1.0), 2), Product((0.0, 0.0), 0)))
    [1.0, 0.375]
    """
    known = [head.singular_values for head in heads if head.singular_values[0]]
    if not known:
        return [0.0] * len(heads[0].singular_values)
    values = np.array(known)
    return [float(value) for value in np.median(values / values[:, :1], axis=0)]


def _takeaways(info: Info) -> dict[str, str]:
    """What the map of heads and the two spectra show."""
    said = {}
    for name in ("OV", "QK"):
        heads = [
            (head.stable_rank, layer.number, number)
            for layer in info.layers
            for number, head in enumerate(layer.ov if name == "OV" else layer.qk, 1)
        ]
        low, high = min(heads), max(heads)
        if name == "OV":
            said["heads"] = (
                f"What heads move ranges from {low[0]:.1f} directions (layer {low[1]}, head "
                f"{low[2]}) to {high[0]:.1f} (layer {high[1]}, head {high[2]}), by the stable rank "
                "of OV."
            )
        falls = [
            (own[-1], layer.number)
            for layer in info.layers
            if (own := spectrum(layer.ov if name == "OV" else layer.qk))[0]
        ]
        if not falls:
            said[f"spectrum-{name}"] = f"{name} is zero in every layer."
            continue
        (least, steep), (most, flat) = min(falls), max(falls)
        end = f"is {_share(least)} of the largest"
        if len(falls) > 1 and _share(least) == _share(most):
            every = "every layer" if len(falls) == len(info.layers) else f"{len(falls)} layers"
            end += f" in {every}"
        elif len(falls) > 1:
            end += f" in layer {steep}, where it falls most, and {_share(most)} in layer {flat}"
        said[f"spectrum-{name}"] = f"The smallest singular value of {name} {end}."
    return said


def _share(value: float) -> str:
    return f"{100 * value:.2g}%" if value > 0 else "0%"


def _lead(info: Info, values: Mapping[str, Array]) -> str:
    ov = [head.stable_rank for layer in info.layers for head in layer.ov]
    qk = [head.stable_rank for layer in info.layers for head in layer.qk]
    full = len(info.layers[0].ov[0].singular_values)
    most = len(info.layers[0].qk[0].singular_values)
    there, they, look = f"There are {len(ov)} heads", "they move", "they look"
    if len(ov) == 1:
        there, they, look = "There is 1 head", "it moves", "it looks"
    said = (
        f"{there}. What {they} (OV) has stable rank {min(ov):.1f} to {max(ov):.1f} of {full}; "
        f"what {look} for (QK), {min(qk):.1f} to {max(qk):.1f} of "
        f"{most}."
    )
    sinks = int((values["sinks"] > SINK).sum()) if "sinks" in values else 0
    spread = int((values["entropy"] > EVEN).sum()) if "entropy" in values else 0
    parts = []
    if sinks:
        give, their = ("gives", "its") if sinks == 1 else ("give", "their")
        parts.append(
            f"{sinks} {give} more than {100 * SINK:.0f}% of {their} attention to one token"
        )
    if spread:
        give, their = ("spreads", "its") if spread == 1 else ("spread", "their")
        parts.append(f"{spread} {give} {'it' if sinks else f'{their} attention'} nearly evenly")
    return f"{said} On this input {' and '.join(parts)}." if parts else said


# --- weights --------------------------------------------------------------------------------------

_KEPT = ("name", "family", "parameters", "bytes", "types", "files", "copies", "unused", "measured")
_NEARLY = re.compile("nearly|almost")  # how `segre.checkpoint.info` says that it is not exactly so


def what_weights_are_like(bench: Workbench) -> Part:
    """Special points, where more is redundant than counted, and the condition of stored bases."""
    info = bench.info
    document = info.document()
    exactly, nearly = special_layers(info)
    return Part(
        status="measured",
        lead=_specially(info),
        how=f"Ranks and coincidences are read off the stored weights, which are rounded to "
        f"{info.roundoff:.1g}: weights that are special up to rounding are called nearly special. "
        "The gauge compares stored bases with balanced ones; 1 is balanced.",
        command=f"segre model info {bench.argument}",
        data={
            **{key: document[key] for key in _KEPT},
            "special": {"exactly": len(exactly), "nearly": len(nearly)},
        },
        takeaways={"conditions": _conditions(info)},
        details=info,
    )


def special_layers(info: Info) -> tuple[list[int], list[int]]:
    """The layers at special points, and those that are only nearly at some."""
    special = [layer for layer in info.layers if layer.special]
    exactly = [
        layer.number for layer in special if not all(_NEARLY.search(x) for x in layer.special)
    ]
    return exactly, [layer.number for layer in special if layer.number not in exactly]


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
    elif worst < lost / 100:
        end = "far from losing a direction to rounding."
    else:
        end = "close to what the stored precision can tell."
    return f"The worst condition number of a head is {worst:.3g} ({name} in layer {where}), {end}"


def _specially(info: Info) -> str:
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
