"""A checkpoint with all its free continuous choices removed part by part, and restored.

The remaining freedom consists of orthogonal matrices and permutations (`turn`): of the stream, of
each head, of the units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from segre.checkpoint.alignment import StreamAlignment
from segre.checkpoint.experts import RouterGauge, centre_router, shift_router
from segre.checkpoint.heads import HeadGauge, balance, unbalance
from segre.checkpoint.latents import balance_planes, turn_planes
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.narrow import joint
from segre.checkpoint.norm_gauge import NormGauge, Stream
from segre.checkpoint.norms import fix_gauge, restore_gauge
from segre.checkpoint.served import require_normal_form
from segre.checkpoint.signs import Signs, StreamSigns, chosen_signs
from segre.checkpoint.tables import shiftable
from segre.checkpoint.units import SHARED, balance_units, scale_units
from segre.checkpoint.without_effect import clear_dead_units
from segre.fields.interface import Array
from segre.transformer.spec import Transformer


@dataclass
class GaugeChoice:
    """All free continuous choices of one part."""

    norms: NormGauge = field(default_factory=NormGauge)
    heads: HeadGauge | None = None
    units: Array | None = None
    shared: Array | None = None  # units of shared experts
    router: RouterGauge | None = None
    latents: Array | None = None  # (planes,): factors of the rotary key of latent attention
    signs: Signs = field(default_factory=dict)  # of norms


@dataclass
class Reduced:
    """One reduced part, and the choices that were removed."""

    part: str
    tensors: Tensors
    choice: GaugeChoice
    tables: Array | None = None  # directions in which tokens shift against positions
    last: tuple[Array, Array] | None = None  # gain and bias of the last norm of shared layers


def reduced(model: Model, slack: float = 0.0) -> Iterator[Reduced]:
    """The parts of a model, one after the other, reduced; only one is in memory.

    Tensors that differ from their reduced form by less than `slack`, relative to their size, stay.
    """
    spec = model.spec
    require_normal_form(spec)
    stream, flips, signs = Stream(), StreamSigns(spec), chosen_signs(model)
    for part in model.parts:
        w = model.part(part)
        clear_dead_units(spec.at(part), w, model.roundoff())
        flips.apply(part, w, signs[part])
        if part == "embed":
            names = ["normT.gain"] if spec.transform and spec.headnorm else []
            stream.tables = shiftable(spec, model.part("head", names))
            if joint(spec):
                norm = model.part("1", ["post2.gain", "post2.bias"])
                flip = signs["1"].get("post1", np.ones((1, 1)))
                stream.last = norm["post2.gain"] * flip, norm["post2.bias"]
        if needs_table(spec, part):
            w |= model.part("embed", ["tokens"])
        norms = fix_gauge(spec.at(part), part, w, stream, slack)
        if needs_table(spec, part):
            del w["tokens"]
        choice = GaugeChoice(norms, signs=signs[part])
        if part not in ("embed", "head"):
            choice.heads = balance(spec.at(part), w, slack)
            choice.latents = balance_planes(spec, w, slack)
            choice.units = balance_units(spec, w, slack)
            choice.shared = balance_units(spec, w, slack, SHARED)
            choice.router = centre_router(spec, w, slack)
        yield Reduced(part, w, choice, stream.tables, stream.last)


def needs_table(spec: Transformer, part: str) -> bool:
    """Whether a part uses the table of tokens of another: tied, with a norm's bias before it."""
    return part == "head" and spec.tied and spec.transform


class Restore:
    """Puts choices back, part by part, on weights in a turned basis; the inverse of `reduced`."""

    def __init__(self, spec: Transformer, turn: StreamAlignment) -> None:
        self.spec, self.turn, self.stream, self.flips = spec, turn, Stream(), StreamSigns(spec)
        self.table: Array | None = None

    def part(self, found: Reduced, choice: GaugeChoice) -> None:
        """Restore one part in place."""
        part, w, tables = found.part, found.tensors, found.tables
        if tables is not None:
            basis = self.turn.embed or self.turn
            self.stream.tables = basis.write(tables) if self.spec.tied else tables
        if part == "embed" and found.last is not None:
            gain, bias = found.last
            self.stream.last = self.turn.gain(gain), self.turn.write(bias)
        if choice.heads is not None:
            unbalance(self.spec.at(part), w, choice.heads)
        if choice.latents is not None:
            turn_planes(self.spec, w, choice.latents)
        if choice.units is not None:
            scale_units(self.spec, w, choice.units)
        if choice.shared is not None:
            scale_units(self.spec, w, choice.shared, SHARED)
        if choice.router is not None:
            shift_router(w, choice.router)
        if needs_table(self.spec, part):
            assert self.table is not None
            w["tokens"] = self.table
        restore_gauge(self.spec.at(part), part, w, choice.norms, self.stream)
        if part == "embed" and needs_table(self.spec, "head"):
            self.table = w["tokens"]
        if needs_table(self.spec, part):
            del w["tokens"]
        self.flips.apply(part, w, choice.signs)
