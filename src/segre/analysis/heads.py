"""What stands out, what do the heads do, and are the weights special?

Spectra, and what one forward pass shows; strata, dead and double units, conditioning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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
    asked = {"length": length, "text": bench.text_given, "seed": bench.seed}
    return Part(
        status="measured",
        lead=found.in_words,
        how=f"Measured in one forward pass on {_tokens(found)}, in double "
        "precision. Each kind of finding has a threshold of its own.",
        command=bench.asking("model diagnose", **asked),
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


def products(info: Info) -> dict[str, list[tuple[Product, ...]]]:
    """OV and QK of the heads of every layer."""
    return {"OV": [one.ov for one in info.layers], "QK": [one.qk for one in info.layers]}


def what_heads_do(bench: Workbench) -> Part:
    """Singular values of OV and QK of every head, and all measures of heads of one pass."""
    info, found, missing = bench.info, None, ""
    try:
        found = bench.diagnosis
    except CheckpointError:  # bad input
        raise
    except SegreError as error:  # too large to run, or numbers that are not finite
        missing = f"Attention patterns are not shown: {error}."
    measured = [] if found is None else found.document()["measures"]
    how = "Singular values of W_O W_V and W_Q' W_K are computed in double precision, with the "
    how += "norms folded in."
    if found is not None:
        how += f" Everything else comes from one forward pass on {found.tokens} tokens."
    documents = (layer.document() for layer in info.layers)
    return Part(
        status="measured",
        lead=_lead(info, {} if found is None else found.values),
        how=how,
        command=bench.command(["heads"]),
        data={
            "layers": [{key: one[key] for key in ("layer", "OV", "QK")} for one in documents],
            "spectra": {kind: list(map(spectrum, each)) for kind, each in products(info).items()},
            "measures": [one for one in measured if one["axis"] == "head"],
        },
        notes=(missing,) * bool(missing),
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
    ranks = [
        (head.stable_rank, layer.number, number)
        for layer in info.layers
        for number, head in enumerate(layer.ov, 1)
    ]
    low, high = min(ranks), max(ranks)
    said = (
        f"What heads move ranges from {low[0]:.1f} directions (layer {low[1]}, head {low[2]}) to "
        f"{high[0]:.1f} (layer {high[1]}, head {high[2]}), by the stable rank of OV."
    )
    falls = {f"spectrum-{kind}": _falls(kind, each) for kind, each in products(info).items()}
    return {"heads": said, **falls}


def _falls(kind: str, layers: Sequence[tuple[Product, ...]]) -> str:
    """How far the spectrum of a product falls, and in which layers most and least."""
    spectra = {number: spectrum(heads) for number, heads in enumerate(layers, 1)}
    falls = [(own[-1], number) for number, own in spectra.items() if own[0]]
    if not falls:
        return f"{kind} is zero in every layer."
    (least, steep), (most, flat) = min(falls), max(falls)
    end = f"is {_share(least)} of the largest"
    if len(falls) > 1 and _share(least) == _share(most):
        every = "every layer" if len(falls) == len(layers) else f"{len(falls)} layers"
        end += f" in {every}"
    elif len(falls) > 1:
        end += f" in layer {steep}, where it falls most, and {_share(most)} in layer {flat}"
    return f"The smallest singular value of {kind} {end}."


def _share(value: float) -> str:
    return f"{100 * value:.2g}%" if value > 0 else "0%"


def _lead(info: Info, values: Mapping[str, Array]) -> str:
    known = [[head for heads in each for head in heads] for each in products(info).values()]
    count = len(known[0])
    there, they, look = f"There are {count} heads", "they move", "they look"
    if count == 1:
        there, they, look = "There is 1 head", "it moves", "it looks"
    ranks = [[head.stable_rank for head in heads] for heads in known]
    ov, qk = (
        f"{min(own):.1f} to {max(own):.1f} of {len(heads[0].singular_values)}"
        for own, heads in zip(ranks, known, strict=True)
    )
    said = f"{there}. What {they} (OV) has stable rank {ov}; what {look} for (QK), {qk}."
    parts = []
    if "sinks" in values and (sinks := int((values["sinks"] > SINK).sum())):
        give, their = ("gives", "its") if sinks == 1 else ("give", "their")
        parts.append(
            f"{sinks} {give} more than {100 * SINK:.0f}% of {their} attention to one token"
        )
    if "entropy" in values and (spread := int((values["entropy"] > EVEN).sum())):
        give, their = ("spreads", "its") if spread == 1 else ("spread", "their")
        parts.append(f"{spread} {give} {'it' if parts else f'{their} attention'} nearly evenly")
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
        command=bench.asking("model info"),
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
    exactly = [one.number for one in special if not all(map(_NEARLY.search, one.special))]
    return exactly, [layer.number for layer in special if layer.number not in exactly]


def _conditions(info: Info) -> str:
    """Where the worst condition number is, and what that means."""
    worst, where, name = max(
        (head.condition or 1.0, number, name)
        for name, layers in products(info).items()
        for number, heads in enumerate(layers, 1)
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
    return (
        f"{layers} of {len(info.layers)} layers {'is' if layers == 1 else 'are'} at special "
        "points, or nearly, where more parameters are redundant than counted: in layer "
        f"{number}, {text}."
    )
