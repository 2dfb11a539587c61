"""The gauge of hidden units: scales that pass through, taken off and put back."""

from __future__ import annotations

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

# By activation: how the output scales with the input, where it does.
DEGREE = {"relu": 1, "relu2": 2}


def scaled(spec: Transformer) -> bool:
    """Whether units have a free scale."""
    return spec.gated or spec.mlp in DEGREE


def signed(spec: Transformer) -> bool:
    """Whether units have a free sign."""
    return spec.gated


def balance_units(spec: Transformer, w: Tensors, slack: float = 0.0) -> Array | None:
    """Equal norms of what a unit reads and writes, in place; factors of what it read (f,)."""
    if spec.mlp == "none":
        return None
    _clear_dead(spec, w)
    if not scaled(spec):
        return None
    reads, writes = unit_norms(w)
    alive = (reads > 0) & (writes > 0)
    degree = DEGREE.get(spec.mlp, 1)
    ratio = np.where(alive, reads, 1) / np.where(alive, writes, 1)
    factor: Array = ratio ** (1 / (1 + degree))
    factor[np.abs(factor - 1) <= slack] = 1.0
    scale_units(spec, w, 1 / factor)
    return factor


def scale_units(spec: Transformer, w: Tensors, factor: Array) -> None:
    """Multiply what units read, and divide what they write by what comes of it."""
    for name in ("W_up", "b_up"):
        if name in w:
            w[name] = w[name] * factor[:, None]
    w["W_down"] = w["W_down"] / factor ** DEGREE.get(spec.mlp, 1)


def unit_norms(w: Tensors) -> tuple[Array, Array]:
    """Norms of what each unit reads (its scalable part, with bias) and writes."""
    reads = (w["W_up"] ** 2).sum(axis=1)
    if "b_up" in w:
        reads = reads + w["b_up"][:, 0] ** 2
    return np.sqrt(reads), np.linalg.norm(w["W_down"], axis=0)


def dead_units(spec: Transformer, w: Tensors) -> Array:
    """Units that write nothing, whatever they read."""
    reads, writes = unit_norms(w)
    silent = reads == 0 if scaled(spec) else np.zeros(len(reads), bool)
    if spec.gated and "b_gate" not in w:  # all gates are 0 at 0
        silent |= ~w["W_gate"].any(axis=1)
    return np.asarray((writes == 0) | silent)


def _clear_dead(spec: Transformer, w: Tensors) -> None:
    dead = dead_units(spec, w)
    if dead.any():
        keep = ~dead
        for name in ("W_gate", "b_gate", "W_up", "b_up"):
            if name in w:
                w[name] = w[name] * keep[:, None]
        w["W_down"] = w["W_down"] * keep
