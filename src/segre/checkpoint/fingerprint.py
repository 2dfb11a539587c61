"""Numbers that all copies of one function share: sums over its normal form without any order.

Entries of a normal form are not suitable for a hash: units of nearly the same size change places,
and among millions of numbers some are always close to a rounding boundary. Sums over heads, units
and rows are smooth; there are a few dozen for each part. Sizes measure heads, units and rows;
probes, fixed combinations of token embeddings, capture how the parts are oriented relative to each
other, including signs. Noise hardly changes a size, since its effects add up at random; it changes
a sum of terms of both signs as much as the terms. So every matrix is in several such sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

import numpy as np

from segre.checkpoint.compare import WORDS, measures
from segre.checkpoint.elements import weights
from segre.checkpoint.layout import Tensors, place_of
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.planes import planes, rotary_key, still
from segre.checkpoint.reduce import Reduced, reduced
from segre.checkpoint.rounding import Rounded, all_rewritten
from segre.checkpoint.units import SHARED, kinds
from segre.fields.interface import Array
from segre.symmetry.wiring import stream_readers
from segre.transformer.spec import Transformer

NAMED = (*WORDS, "W_U")  # whose members have names, so that their order counts
TURNED = ("A_Q", "A_K")  # whose rows have no sizes of their own: their basis is free
MARGIN = 20.0  # over the measured effect of rounding
DRAWS = 2
ARITHMETIC = 1e-9  # what double precision does, with room
SUMS = 5  # of both signs, in which a matrix is; one of many experts is in more


class Number(NamedTuple):
    """One number: the logarithm of a size, to base 2, or a sum of either sign by its scale."""

    part: str
    name: str
    value: float
    error: float = 0.0  # what rounding of the stored weights can do to it

    @property
    def place(self) -> str:
        """The name that reports use: layer 3, OV, size."""
        return f"{place_of(self.part)}, {self.name}"


def numbers(model: Model, progress: Progress = no_progress) -> tuple[Number, ...]:
    """The numbers of a checkpoint, with the effect of rounding, which is measured."""
    found = list(_numbers(model, progress, "numbers"))
    whole = all_rewritten(model)  # perturbed by as much as rounding can have changed values
    again = [
        list(_numbers(Rounded.of(model, whole, 1, draw), progress, "effect of rounding"))
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


def _numbers(model: Model, progress: Progress, stage: str) -> Iterator[tuple[str, str, float]]:
    sums = SUMS * ceil(max(1, model.spec.experts) ** 0.5)
    probes = np.zeros((0, 1))
    for done, found in enumerate(reduced(model)):
        progress(stage, done, len(model.parts))
        part, own = found.part, model.spec.at(found.part)
        if part == "embed":
            probes = _probes(found.tensors, max(SUMS, ceil(sums**0.5)))
        for name, value in (*_sizes(own, found), *_sums(own, found, probes, sums)):
            yield part, name, value


def _probes(embed: Tensors, count: int) -> Array:
    """Directions of the stream, as columns: sums of the columns of a table, with fixed signs."""
    table = embed["tokens"] if "tokens" in embed else embed["W_P"]
    signs = [np.random.default_rng(i).choice([-1.0, 1.0], table.shape[1]) for i in range(count)]
    probes = table @ np.transpose(signs)
    if "W_E" in embed:
        probes = embed["W_E"] @ probes
    return np.asarray(probes / np.linalg.norm(probes, axis=0).clip(1e-300))


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


def _sums(
    spec: Transformer, found: Reduced, probes: Array, count: int
) -> Iterator[tuple[str, float]]:
    """Sums of terms of both signs, each by the norm of its terms; units are in all of `count`."""
    width = probes.shape[1]
    # the first is of one probe alone, all others are of two
    pairs = [(0, 0), *((i, (i + j) % width) for j in range(1, width) for i in range(width))]
    for number, (i, j) in enumerate(pairs[:count], 1):
        for name, terms in _signed(spec, found.tensors, probes[:, [i]], probes[:, [j]]):
            scale = float(np.linalg.norm(terms))
            if scale and (number <= SUMS or name == "units"):
                yield f"{name}, signed{f' {number}' * (number > 1)}", float(terms.sum()) / scale


def _signed(spec: Transformer, w: Tensors, p: Array, q: Array) -> Iterator[tuple[str, Array]]:
    """Terms of sums that see signs: from one probe through heads, and units, to another.

    What has names counts with fixed signs; other readers count by what they read of both probes.
    """
    seen = {"A_Q", "A_K"}
    for name in w:
        table = w[name] if name == "W_U" else w[name].T
        read = _through(w, "W_T", _through(w, "W_pool", p)) if name == "W_U" else p
        if name in NAMED and table.shape[-1] == len(read):
            seen.add(name)
            first = spec.offset if name == "positions" else 0
            signs = np.random.default_rng(0).choice([-1.0, 1.0], len(table) - first)
            yield name, (table @ read)[first:, 0] * signs
    if "W_V" in w:
        seen |= {"W_V", "W_O", "W_Q", "W_K"}
        read = w["W_V"] @ _through(w, "A_K", p)
        written = w["W_O"].swapaxes(-1, -2) @ q
        yield "OV", (read * written).sum(axis=(-1, -2))
        asked, met = w["W_Q"] @ _through(w, "A_Q", p), w["W_K"] @ _through(w, "A_K", q)
        turning = (planes(spec, asked) * np.conj(planes(spec, met))).real.sum(axis=(-1, -2))
        yield "QK", turning + (still(spec, asked) * still(spec, met)).sum(axis=(-1, -2))
    if "R_K" in w:
        seen |= {"R_Q", "R_K"}
        asked = rotary_key(spec, w["R_Q"] @ _through(w, "A_Q", p))
        met = rotary_key(spec, w["R_K"] @ q)
        yield "rotary QK", (asked * np.conj(met)).real.sum(axis=(-1, -2))
    for kind in kinds(w):
        up, down, gate = (f"{kind}_{name}" for name in ("up", "down", "gate"))
        seen |= {up, down, gate}
        read, written = w[up] @ p, w[down].swapaxes(-1, -2) @ q
        terms = read * written * (w[gate] @ p if gate in w else 1.0)
        yield "shared units" if kind == SHARED else "units", terms
    for name in w:
        if name in seen or w[name].shape[-1] != len(p):
            continue
        if name in (*stream_readers(spec), "W_pool"):
            yield name, (w[name] @ p) * (w[name] @ q)


def _through(w: Tensors, name: str, probe: Array) -> Array:
    """What a matrix makes of a probe, if a part has it."""
    return np.asarray(w[name] @ probe) if name in w else probe
