"""Hidden units: their sizes, their order, and those that are dead.

Units of experts have one more axis, the first. Those of shared experts, which all tokens use, have
tensors of their own: their names begin with S instead of W.
"""

from __future__ import annotations

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.fields.interface import Array
from segre.symmetry.mlp import SCALES
from segre.symmetry.orders import unit_orders
from segre.symmetry.space import FloatWeights
from segre.transformer.spec import Transformer

UNITS, SHARED = "W", "S"  # what names of tensors begin with
NAMES = {UNITS: "units", SHARED: "shared"}  # of their orders


def kinds(w: Tensors) -> tuple[str, ...]:
    """Which of both kinds of units a layer has."""
    return tuple(kind for kind in (UNITS, SHARED) if f"{kind}_up" in w)


def scaled(spec: Transformer) -> bool:
    """Whether units have a free scale."""
    return spec.mlp in SCALES


def signed(spec: Transformer) -> bool:
    """Whether units have a free sign."""
    return spec.gated and spec.mlp != "clamped"


def biased(w: Tensors, kind: str, name: str) -> str:
    """The bias of a map, if it has one; experts have theirs by another name, shared ones none."""
    names = (f"b_{name}", f"c_{name}") if kind == UNITS else ()
    return next((found for found in names if found in w), "")


def unit_norms(w: Tensors, kind: str = UNITS) -> tuple[Array, Array]:
    """Norms of the input weights (the scalable part, with bias) and output weights of each unit."""
    up, down = w[f"{kind}_up"], w[f"{kind}_down"]
    reads = np.einsum("...ij,...ij->...i", up, up)
    if bias := biased(w, kind, "up"):
        reads = reads + w[bias][..., 0] ** 2
    return np.sqrt(reads), np.sqrt(np.einsum("...ij,...ij->...j", down, down))


def unit_sizes(w: Tensors, kind: str = UNITS) -> Array:
    """The size of each unit: the product of the norms of its input, gate and output weights."""
    reads, writes = unit_norms(w, kind)
    if f"{kind}_gate" not in w:
        return reads * writes
    return np.asarray(reads * writes * np.linalg.norm(w[f"{kind}_gate"], axis=-1))


def dead_units(spec: Transformer, w: Tensors, kind: str = UNITS) -> Array:
    """Units whose output is always zero."""
    reads, writes = unit_norms(w, kind)
    silent = reads == 0 if scaled(spec) else np.zeros(reads.shape, bool)
    if spec.gated and not biased(w, kind, "gate"):  # all gates are 0 at 0
        silent |= ~w[f"{kind}_gate"].any(axis=-1)
    return np.asarray((writes == 0) | silent)


def clear(spec: Transformer, part: str, w: Tensors, kind: str, dead: Array) -> None:
    """Set all weights of units whose output is always zero to zero, in place."""
    if dead.any():
        units = unit_orders(spec, part)[NAMES[kind]]
        own = FloatWeights.of(spec, part, w)
        for port in units.ports:
            port.times(own, ~dead, len(units.copies))
        w.update(own.part(part))


def dense(w: Tensors, kind: str = UNITS) -> list[Tensors]:
    """The units of each expert, of the shared ones, or of a dense layer: by the names of these."""
    if kind == SHARED:
        return [{f"W_{name}": w[f"S_{name}"] for name in ("gate", "up", "down")}]
    if w["W_up"].ndim == 2:
        return [w]
    names: dict[str, str] = {name: name for name in ("W_gate", "W_up", "W_down") if name in w}
    names |= {f"b_{name}": f"c_{name}" for name in ("gate", "up") if f"c_{name}" in w}
    return [{own: w[name][i] for own, name in names.items()} for i in range(len(w["W_up"]))]
