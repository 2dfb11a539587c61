"""Weights at special points, where more of them give the same function than elsewhere.

At such points two checkpoints can differ in quantities that are invariant elsewhere and still be
the same function, and more parameters are redundant than the formula counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from segre.checkpoint.flips import NORMED
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.planes import free_planes, keys, planes, queries, still
from segre.checkpoint.reduce import Reduced
from segre.checkpoint.units import (
    SHARED,
    UNITS,
    biased,
    dead_units,
    dense,
    kinds,
    scaled,
    signed,
    unit_norms,
    unit_sizes,
)
from segre.fields.interface import Array
from segre.symmetry.compact import stream_freedom
from segre.symmetry.orders import sign_orders
from segre.symmetry.reduction import UNSURE, unsure
from segre.transformer.spec import Transformer

WEAK = 1e-6  # units below this fraction of the median are nearly dead
PARALLEL = 1e-6  # units and patterns are alike if their cosine is this near to 1
EQUAL = 1e-3  # gains that differ by no more than this do not fix axes well
PROBES = 32  # random directions along which units are compared
SCORES = 4  # random inputs on either side, for which patterns are compared


# By norm: the blocks in which rows show whose gain is zero, and what its gains are of.
_SIGNED = {
    "normq": ("head", "queries"),
    "normk": ("head", "keys"),
    "post1": ("head", "the attention output"),
    "post2": ("MLP", "the MLP output"),
}


@dataclass(frozen=True)
class Special:
    """What is special, and where: head or MLP; nowhere, if no difference follows from it."""

    place: str
    text: str


@dataclass(frozen=True)
class Units:
    """The hidden units of an MLP, of experts one after the other, counted from 1."""

    count: int
    dead: tuple[int, ...]  # write nothing at all
    weak: tuple[int, ...]  # next to nothing, against the median
    duplicates: tuple[tuple[int, int], ...]  # read the same


def special_points(
    spec: Transformer, found: Reduced, units: Mapping[str, Units] | None = None
) -> Iterator[Special]:
    """The special features of a part, which allow more changes than the symmetries.

    Of units that are known, nothing is computed again.
    """
    if found.part in ("embed", "head"):
        return
    spec, w = spec.at(found.part), found.tensors
    if spec.qknorm and (free := free_planes(spec, w)).any():
        yield Special("", f"{int(free.sum())} rotary planes have equal gains")
    yield from _pairs("head", "heads", equal_patterns(spec, w), "the same attention pattern")
    silent = np.flatnonzero(~w["W_V"].any(axis=(1, 2, 3)))
    if len(silent):
        yield Special("head", f"values of key-value heads {listed(silent)} are zero")
    for norm, (place, of) in _SIGNED.items():
        if spec.normed_inside or norm in NORMED:
            zero = np.flatnonzero(w.get(f"{norm}.gain", np.ones(1)) == 0)
            if len(zero):
                yield Special(place, f"gains {listed(zero)} of {of} are zero")
    for kind in kinds(w) if spec.mlp != "none" else ():
        yield from special_units(kind, units[kind] if units else units_of(spec, w, kind))
    yield from _pairs("MLP", "experts", equal_experts(w), "the same affinities")


def special_units(kind: str, units: Units) -> Iterator[Special]:
    """What is special of the units of a layer."""
    name = "shared MLP units" if kind == SHARED else "MLP units"
    for place, numbers, what in (("MLP", units.dead, "zero"), ("", units.weak, "almost zero")):
        if numbers:
            yield Special(place, f"{name} {listed(np.array(numbers) - 1)} have {what} output")
    pairs = [(i - 1, j - 1) for i, j in units.duplicates]
    yield from _pairs("MLP", name, pairs, "parallel input weights")


def _pairs(place: str, name: str, pairs: list[tuple[int, int]], what: str) -> Iterator[Special]:
    """The first pair in words, counted from 1, and how many more there are."""
    if pairs:
        more = f" (and {len(pairs) - 1} more pairs)" if len(pairs) > 1 else ""
        yield Special(place, f"{name} {pairs[0][0] + 1} and {pairs[0][1] + 1}{more} have {what}")


def units_of(spec: Transformer, w: Tensors, kind: str) -> Units:
    """Which units of a layer write nothing or little, and which read the same."""
    dead = dead_units(spec, w, kind).ravel()
    size = unit_sizes(w, kind)
    if bias := biased(w, kind, "gate"):
        reads, writes = unit_norms(w, kind)
        gate = (w[f"{kind}_gate"] ** 2).sum(axis=-1) + w[bias][..., 0] ** 2
        size = reads * writes * np.sqrt(gate)
    size = size.ravel()
    usual = 0.0 if dead.all() else float(np.median(size[~dead]))
    weak = (size < WEAK * usual) & ~dead
    pairs = tuple((i + 1, j + 1) for i, j in duplicate_units(spec, w, kind))
    named = [tuple((np.flatnonzero(chosen) + 1).tolist()) for chosen in (dead, weak)]
    return Units(len(size), named[0], named[1], pairs)


def special_stream(model: Model) -> str | None:
    """Whether the gains that fix the axes of the stream are all equal, and so do not fix them."""
    spec = model.spec
    if spec.norm == "layer" and spec.d == 2:
        return "a LayerNorm of width two reads only a sign of the stream"
    if stream_freedom(spec) not in ("order and signs", "order and sign"):
        return None
    names = ["norm.gain"] if spec.tied or spec.place == "post" else []
    names += ["post1.gain", "post2.gain"] if spec.place != "pre" else []
    gains = [gain for part in model.parts for gain in model.part(part, names).values()]
    if spec.normed_inside:  # up to signs, which are free
        gains = [np.abs(gain) for gain in gains]
    if all(np.ptp(gain) <= EQUAL * np.abs(gain).max() for gain in gains):
        return "all gains are equal, so any rotation of the stream is a symmetry"
    return None


def lost_signs(model: Model) -> str | None:
    """Whether rounding may have changed the sign of a gain that fixes signs of the stream."""
    for one in sign_orders(model.spec):
        for part, name in one.by if one.kind == "signs" else ():
            if unsure(model.part(part, [name])[name], UNSURE * model.roundoff()).any():
                return "a gain of the last norm is so small that rounding can change its sign"
    return None


def listed(indices: Array) -> str:
    """Indices in words, counted from 1; of many the first few."""
    shown = ", ".join(str(i + 1) for i in indices[:5])
    return shown if len(indices) <= 5 else f"{shown} and {len(indices) - 5} more"


def equal_patterns(spec: Transformer, w: Tensors) -> list[tuple[int, int]]:
    """Query heads with the same scores (up to a factor, if queries and keys are normed)."""
    rng = np.random.default_rng(0)
    Q, K = queries(w), keys(w)
    q = Q @ rng.standard_normal((Q.shape[-1], SCORES))
    k = np.broadcast_to(K @ rng.standard_normal((K.shape[-1], SCORES)), q.shape)
    if spec.qknorm:
        q, k = q * w["normq.gain"], k * w["normk.gain"]
    # planes turn at different speeds, so each is seen by itself
    products = np.einsum("hgpm,hgpn->hgpmn", np.conj(planes(spec, q)), planes(spec, k))
    flat = products.reshape(spec.heads, -1)
    unmoved = np.einsum("hgkm,hgkn->hgmn", still(spec, q), still(spec, k))
    seen = [flat.real, flat.imag, unmoved.reshape(spec.heads, -1)]
    if "R_Q" in w:  # all heads turn against the same key
        probes = rng.standard_normal((w["R_Q"].shape[-1], SCORES))
        seen.append((w["R_Q"] @ probes).reshape(spec.heads, -1))
    if "sinks" in w:
        seen.append(w["sinks"].reshape(spec.heads, 1))
    unit, size = _unit(np.concatenate(seen, axis=1))
    return near_pairs(unit if spec.qknorm is True else np.concatenate([unit, size], axis=1))


def equal_experts(w: Tensors) -> list[tuple[int, int]]:
    """Experts whose rows of the router are the same."""
    if "W_R" not in w:
        return []
    unit, size = _unit(w["W_R"][:, 0])
    return near_pairs(np.concatenate([unit, size], axis=1))


def duplicate_units(spec: Transformer, w: Tensors, kind: str = UNITS) -> list[tuple[int, int]]:
    """Units that read the same, up to the scales and signs that are free; not the dead ones.

    Those of experts are compared within each, and counted from one expert to the next.
    """
    out: list[tuple[int, int]] = []
    for number, own in enumerate(dense(w, kind)):
        alive = np.flatnonzero(~dead_units(spec, own))
        up, size = _unit(_sketch(own, "up")[alive])
        if spec.gated:
            gate, size = _unit(_sketch(own, "gate")[alive])
            free = np.where(up[:, :1] < 0, -1.0, 1.0) if signed(spec) else 1.0
            up = np.concatenate([up * free, gate], axis=1)
        points = up if scaled(spec) and not spec.gated else np.concatenate([up, size], axis=1)
        at = alive + number * len(own["W_up"])
        out += [(int(at[i]), int(at[j])) for i, j in near_pairs(points)]
    return out


def near_pairs(points: Array) -> list[tuple[int, int]]:
    """Every point with the one nearest to it, if these are nearer than parallel vectors are.

    >>> near_pairs(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0001]]))
    [(0, 2)]
    """
    from scipy.spatial import cKDTree

    if len(points) < 2:
        return []
    near = (2 * PARALLEL) ** 0.5
    _, found = cKDTree(points).query(points, k=2, distance_upper_bound=near)
    pairs = {
        (min(i, j), max(i, j))
        for i, both in enumerate(np.asarray(found).tolist())
        for j in both
        if j != i and j < len(points)  # the length stands for none
    }
    return sorted(pairs)


def _sketch(w: Tensors, name: str) -> Array:
    """What units read, along random directions: about as far apart as the whole."""
    rng = np.random.default_rng(0)
    W = w[f"W_{name}"]
    rows = W @ rng.standard_normal((W.shape[1], PROBES))
    if f"b_{name}" in w:
        rows = rows + w[f"b_{name}"] * rng.standard_normal((1, PROBES))
    return np.asarray(rows / PROBES**0.5)


def _unit(rows: Array) -> tuple[Array, Array]:
    """Directions, and logarithms of sizes as a column; nothing has direction 0 and size 1."""
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    size = np.where(size > 0, size, 1.0)
    return rows / size, np.log(size)
