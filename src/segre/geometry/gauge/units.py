"""Symmetries of MLPs: the scale of hidden units where activations allow it, and of routers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.wiring import expert_layer, has, where
from segre.transformer.spec import Transformer

# By kind of MLP: which maps a unit's scale may go into, and the degree in which it comes out.
SCALES: dict[str, tuple[tuple[str, int], ...]] = {
    "relu": (("up", 1),),
    "relu2": (("up", 2),),
    "swiglu": (("up", 1),),
    "geglu": (("up", 1),),
    "geglu-tanh": (("up", 1),),
    "geglu-quick": (("up", 1),),
    "reglu": (("up", 1), ("gate", 1)),
    "bilinear": (("up", 1), ("gate", 1)),
}


@dataclass(frozen=True)
class _Units:
    """Hidden units with common tensors; experts have one more axis."""

    prefix: str  # W, or S for experts that all tokens use
    shape: tuple[int, ...]
    name: str


def unit_pieces(spec: Transformer, part: str) -> Iterator[Piece]:
    """The pieces of one MLP."""
    if spec.softmax_router and expert_layer(spec, part):
        yield _router_shift(spec, part)
    if spec.mlp not in SCALES:
        return
    units = [_Units("W", (spec.ff,), "hidden unit")]
    if expert_layer(spec, part):
        units = [_Units("W", (spec.experts, spec.eff), "hidden unit of the experts")]
        if spec.shared:
            units.append(_Units("S", (spec.shared,), "hidden unit of the shared experts"))
    for kind in units:
        for side, degree in SCALES[spec.mlp]:
            yield _scale(spec, part, kind, side, degree)


def _router_shift(spec: Transformer, part: str) -> Piece:
    """A softmax is invariant under adding a number to all affinities of a token."""

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(spec.d + spec.expbias)
        canvas(part, "W_R")[range(spec.d), :, :, range(spec.d)] = 1
        if spec.expbias:
            canvas(part, "c_R")[spec.d] = 1
        return canvas.rows

    name = "one vector added to all rows of the router"
    count = spec.d + spec.expbias
    return Piece("router-shift", name, where(spec, part), "MLP", "exact", count, build)


def _scale(spec: Transformer, part: str, units: _Units, side: str, degree: int) -> Piece:
    count = prod(units.shape)

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(count)
        names = [f"{units.prefix}_{side}"]
        names += [f"b_{side}", f"c_{side}"] if units.prefix == "W" else []
        for row, unit in enumerate(np.ndindex(*units.shape)):
            *expert, j = unit
            for name in names:
                if has(spec, part, name):
                    canvas(part, name)[(row, *unit)] = w(part, name)[unit]
            down = f"{units.prefix}_down"
            at = (*expert, slice(None), j)
            canvas(part, down)[(row, *at)] = -degree * w(part, down)[at]
        return w.field.reduce(canvas.rows)

    name = f"scale of every {units.name}, {side} against down"
    return Piece("unit-scale", name, where(spec, part), "MLP", "exact", count, build)
