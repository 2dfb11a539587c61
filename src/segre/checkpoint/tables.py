"""Tables of tokens, positions and types: means that a norm removes, shifts from one to another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.checkpoint.norm_gauge import NormGauge, away_from
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

TABLES = ("tokens", "W_P", "positions", "types")
PLACED = ("b_P", "cls", "mask")  # of patches: constants that positions can have, or nobody reads


def shiftable(spec: Transformer, head: Tensors) -> Array | None:
    """Directions, as orthonormal columns, along which all tokens shift against all positions."""
    if spec.pos != "learned" or spec.patch:
        return None
    if not spec.tied:
        return np.eye(spec.embed or spec.d)
    if spec.transform and spec.outbias:  # the norm's output is orthogonal to this direction
        return away_from(head["normT.gain"])
    return None


def fix_tables(spec: Transformer, w: Tensors, gauge: NormGauge, shifts: Array | None) -> None:
    """Remove means and shifts from the tables, in place; positions that no token has become 0."""
    if spec.offset:
        gauge.tables["unused"] = w["positions"][:, : spec.offset]
        w["positions"] = w["positions"][:, spec.offset :]
    for name in TABLES:
        if name in w:
            gauge.measure(name, w[name])
    for name in PLACED:
        if name in w:
            gauge.tables[name] = w[name]
            _place(spec, w, name, w[name])
            w[name] = np.zeros_like(w[name])
    for name in _centred(spec, w):
        gauge.writes[name] = gauge.mean(w[name], 0)
        w[name] = w[name] - gauge.writes[name]
    if "types" in w:
        mean = gauge.mean(w["types"], 1)
        gauge.tables["types"] = mean
        w["types"] = w["types"] - mean
        w["positions"] = w["positions"] + mean
    if shifts is not None:
        by = gauge.tables["positions"] = _along(spec, w, gauge, shifts)
        w["positions"] = w["positions"] - _written(spec, shifts) @ by
        w["tokens"] = w["tokens"] + shifts @ by
    if spec.offset:
        unused = np.zeros_like(gauge.tables["unused"])
        w["positions"] = np.concatenate([unused, w["positions"]], axis=1)


def restore_tables(spec: Transformer, w: Tensors, gauge: NormGauge, shifts: Array | None) -> None:
    """Inverse of `fix_tables`, with given choices."""
    if spec.offset:
        w["positions"] = w["positions"][:, spec.offset :]
    if shifts is not None:
        by = gauge.tables["positions"]
        w["positions"] = w["positions"] + _written(spec, shifts) @ by
        w["tokens"] = w["tokens"] - shifts @ by
    if "types" in w:
        w["types"] = w["types"] + gauge.tables["types"]
        w["positions"] = w["positions"] - gauge.tables["types"]
    for name in _centred(spec, w):
        w[name] = w[name] + gauge.writes[name]
    for name in PLACED:
        if name in w:
            w[name] = gauge.tables[name]
            _place(spec, w, name, -w[name])
    if spec.offset:
        w["positions"] = np.concatenate([gauge.tables["unused"], w["positions"]], axis=1)


def _place(spec: Transformer, w: Tensors, name: str, by: Array) -> None:
    """Add the bias of patches, or the class token, to the positions; masks are not read."""
    if name == "mask":
        return
    positions = w["positions"].copy()
    positions[:, :1] += by if name == "cls" else 0.0
    first = int(spec.cls)
    positions[:, first:] += by if name == "b_P" else 0.0
    w["positions"] = positions


def shifted_positions(spec: Transformer) -> bool:
    """Whether the biases of the first layer can take what all positions have in common."""
    plain = spec.place == "post" and not spec.embnorm and not spec.embed
    return plain and spec.bias == "all" and spec.pos == "learned"


def fix_common_position(spec: Transformer, w: Tensors, gauge: NormGauge) -> Array:
    """Take the mean off the positions, in place, for the layer that reads them."""
    shift = gauge.shifts["positions"] = gauge.mean(w["positions"][:, spec.offset :], 1)
    _shift_positions(spec, w, -shift)
    return shift


def restore_common_position(spec: Transformer, w: Tensors, gauge: NormGauge) -> Array:
    """Inverse of `fix_common_position`, with a given choice."""
    _shift_positions(spec, w, gauge.shifts["positions"])
    return gauge.shifts["positions"]


def _shift_positions(spec: Transformer, w: Tensors, by: Array) -> None:
    unused, used = np.split(w["positions"], [spec.offset], axis=1)
    w["positions"] = np.concatenate([unused, used + by], axis=1)


def _written(spec: Transformer, shifts: Array) -> Array:
    """The part of shifts that a LayerNorm does not remove."""
    return shifts - shifts.mean(axis=0) if spec.norm == "layer" and spec.tied else shifts


def _along(spec: Transformer, w: Tensors, gauge: NormGauge, shifts: Array) -> Array:
    """The shift that makes the mean of the positions vanish, as far as possible."""
    if not spec.tied:  # any shift is free
        return gauge.mean(w["positions"], 1)
    written = _written(spec, shifts)
    size = float((written**2).sum())
    if size < 1e-20:  # equal gains: nobody sees the shift of the tokens
        return -gauge.mean(shifts.T @ w["tokens"], 1)
    return gauge.mean(written.T @ w["positions"] / size, 1)


def _centred(spec: Transformer, w: Tensors) -> Iterator[str]:
    """Tables whose mean over the stream's coordinates a LayerNorm removes at once."""
    if spec.norm == "layer" and (spec.embnorm or spec.place != "post"):
        for name in TABLES:
            if name in w and not (name == "tokens" and spec.tied):
                yield name
