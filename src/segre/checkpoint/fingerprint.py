"""Numbers that all copies of one function share: sums over its normal form without any order.

Entries of a normal form are not suitable for a hash: units of nearly the same size change places,
and among millions of numbers some are always close to a rounding boundary. Sums over heads, units
and rows are smooth; there are a few dozen for each part. Sizes measure heads, units and rows;
probes, fixed combinations of token embeddings, capture how the parts are oriented relative to each
other, including signs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from segre.checkpoint.compare import WORDS, measures
from segre.checkpoint.frame import weights
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.planes import planes, still
from segre.checkpoint.reduce import Reduced, reduced
from segre.checkpoint.rounding import Differences, Rounded, Touched
from segre.fields.interface import Array
from segre.geometry.gauge.wiring import stream_readers, stream_writers
from segre.transformer.spec import Transformer

NAMED = (*WORDS, "W_U")  # whose members have names, so that their order counts
TURNED = ("A_Q", "A_K")  # whose rows have no sizes of their own: their basis is free
MARGIN = 20.0  # over the measured effect of rounding
DRAWS = 2
ARITHMETIC = 1e-9  # what double precision does, with room


@dataclass(frozen=True)
class Number:
    """One number: the logarithm of a size, to base 2, or a sum of either sign by its scale."""

    part: str
    name: str
    value: float
    error: float = 0.0  # what rounding of the stored weights can do to it


def numbers(model: Model, progress: Progress = no_progress) -> tuple[Number, ...]:
    """The numbers of a checkpoint, with the effect of rounding, which is measured."""
    found = list(_numbers(model, progress, "numbers"))
    again = [
        list(_numbers(_rounded(model, draw), progress, "effect of rounding"))
        for draw in range(DRAWS)
    ]
    effects = np.array(
        [[abs(a - b) for (*_, a), (*_, b) in zip(found, x, strict=True)] for x in again]
    )
    most = effects.max(axis=0, initial=0.0)
    typical = float(np.median(most)) if len(most) else 0.0
    return tuple(
        Number(part, name, value, MARGIN * max(float(error), typical, ARITHMETIC))
        for (part, name, value), error in zip(found, most, strict=True)
    )


def _rounded(model: Model, draw: int) -> Rounded:
    """The checkpoint with all values perturbed by as much as rounding can have changed them."""
    touched = {}
    for part, every in model.held.items():
        for held in every:
            entry = model.store.entries[held.file]
            rows, columns = entry.shape[0], int(np.prod(entry.shape[1:]))
            whole = np.ones(rows, bool), np.zeros(columns, bool)
            touched[part, held.label] = Touched(entry.dtype, *whole, np.zeros(0, np.int64), 0)
    return Rounded.of(model, Differences(touched, 0.0, 1), seed=1, draw=draw)


def _numbers(model: Model, progress: Progress, stage: str) -> Iterator[tuple[str, str, float]]:
    probe = np.zeros((0, 1))
    for done, found in enumerate(reduced(model)):
        progress(stage, done, len(model.parts))
        part, own = found.part, model.spec.at(found.part)
        if part == "embed":
            probe = _probe(found.tensors)
        for name, value in (*_sizes(own, found), *_probed(own, found, probe)):
            yield part, name, value


def _probe(embed: Tensors) -> Array:
    """One direction of the stream: a sum of the columns of a table, with fixed signs."""
    table = embed["tokens"] if "tokens" in embed else embed["W_P"]
    signs = np.random.default_rng(0).choice([-1.0, 1.0], table.shape[1])
    if "W_E" in embed:
        table = embed["W_E"] @ table
    probe = table @ signs
    return np.asarray(probe[:, None] / max(float(np.linalg.norm(probe)), 1e-300))


def _sizes(spec: Transformer, found: Reduced) -> Iterator[tuple[str, float]]:
    """Sizes of heads, units and rows: means of two powers, and by name where there are names."""
    for measure in measures(spec, found, found):
        sizes = measure.sizes
        if not sizes.any():
            continue
        yield f"{measure.kind}, size", _log(float(np.sqrt((sizes**2).mean())))
        if measure.kind in NAMED:
            by = weights(len(sizes))
            yield f"{measure.kind}, by name", _log(float(by @ sizes**2 / len(sizes))) / 2
        elif len(sizes) > 1 and measure.kind not in TURNED:
            yield f"{measure.kind}, fourth powers", _log(float((sizes**4).mean())) / 4


def _log(value: float) -> float:
    return float(np.log2(max(value, 1e-300)))


def _probed(spec: Transformer, found: Reduced, probe: Array) -> Iterator[tuple[str, float]]:
    w = found.tensors
    if found.part == "embed":
        return
    width = len(probe)
    for name in w:
        if name in stream_readers(spec) and w[name].shape[-1] == width:
            seen = w[name] @ probe
        elif name in stream_writers(spec) and w[name].shape[-2] == width:
            seen = w[name].swapaxes(-1, -2) @ probe
        else:
            continue
        if seen.any():
            yield f"{name}, probed", _log(float(np.linalg.norm(seen)))
    for name, terms in _signed(spec, w, probe):
        scale = float(np.linalg.norm(terms))
        if scale:
            yield name, float(terms.sum()) / scale


def _signed(spec: Transformer, w: Tensors, probe: Array) -> Iterator[tuple[str, Array]]:
    """Terms of sums that see signs: from the probe through heads, and units, to the probe."""
    width = len(probe)
    if "W_V" in w and w["W_V"].shape[-1] == width:
        read, written = (w["W_V"] @ probe)[..., 0], (w["W_O"].swapaxes(-1, -2) @ probe)[..., 0]
        yield "OV, signed", np.asarray((read * written).sum(axis=-1))
    if "W_Q" in w and w["W_Q"].shape[-1] == width and w["W_K"].shape[-1] == width:
        q, k = (x @ probe for x in (w["W_Q"], w["W_K"]))
        turning = (planes(spec, q) * np.conj(planes(spec, k))).real.sum(axis=(-1, -2))
        yield (
            "QK, signed",
            np.asarray(turning + (still(spec, q) * still(spec, k)).sum(axis=(-1, -2))),
        )
    if "W_up" in w:
        read, written = (w["W_up"] @ probe)[..., 0], (w["W_down"].swapaxes(-1, -2) @ probe)[..., 0]
        gate = (w["W_gate"] @ probe)[..., 0] if "W_gate" in w else 1.0
        yield "units, signed", np.asarray(read * written * gate)
