"""The spaces of MLPs: hidden units, and the affinities of tokens to experts."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from segre.symmetry.basis import Basis
from segre.symmetry.constants import Several, Slack, ones
from segre.symmetry.piece import Piece
from segre.symmetry.space import Port, reader, writer
from segre.symmetry.wiring import expert_layer, has, where
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


def kinds_of_units(spec: Transformer, part: str) -> list[tuple[str, tuple[int, ...], int]]:
    """By kind: how names of tensors begin, the axis of experts if there is one, and the width."""
    if not expert_layer(spec, part):
        return [("W", (), spec.ff)]
    routed: tuple[str, tuple[int, ...], int] = ("W", (spec.experts,), spec.eff)
    return [routed, ("S", (), spec.shared)] if spec.shared else [routed]


def unit_ports(
    spec: Transformer, part: str, prefix: str, side: str = "up", degree: int = 1
) -> tuple[Port, ...]:
    """The ports of hidden units; a scale or sign passes through one `side`, into the output."""
    out = []
    for name in ("gate", "up"):
        names = [f"{prefix}_{name}", *(f"{b}_{name}" for b in "bc" if prefix == "W")]
        own = int(name == side)
        out += [writer(part, n, degree=own) for n in names if has(spec, part, n)]
    return (*out, reader(part, f"{prefix}_down", degree=degree))


def unit_pieces(spec: Transformer, part: str) -> Iterator[Piece]:
    """Scales of the hidden units of one MLP; what may be added to all affinities of a router."""
    at, routed = where(spec, part), expert_layer(spec, part)
    if spec.softmax_router and routed:
        name = "one vector added to all rows of the router"
        maps = [Port((part, n), -3) for n in ("W_R", "c_R") if has(spec, part, n)]
        free = Several(tuple(Slack(port, ones(spec.experts)) for port in maps))
        count = spec.d + spec.expbias
        yield Piece("router-shift", name, at, "MLP", "exact", count, free)
    kinds = kinds_of_units(spec, part) if spec.mlp in SCALES else []
    titles = ("hidden unit of the experts", "hidden unit of the shared experts")
    for (prefix, copies, width), title in zip(kinds, titles, strict=False):
        for side, degree in SCALES[spec.mlp]:
            what = title if routed else "hidden unit"
            name = f"scale of every {what}, {side} against down"
            ports = unit_ports(spec, part, prefix, side, degree)
            scales, count = Basis(width, "torus", ports, copies), prod(copies) * width
            yield Piece("unit-scale", name, at, "MLP", "exact", count, scales)
