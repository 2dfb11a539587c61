"""The layers of a stack as groups of heads: their weights and their mechanisms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from segre.attention import mechanism
from segre.attention.mechanism import Mechanism
from segre.errors import UnsupportedError
from segre.hybrid.spec import KINDS, Hybrid
from segre.hybrid.stages import named
from segre.models import Source, with_attention
from segre.network import slots as network_slots
from segre.spec import Network
from segre.values import quote

Stack = Network | Hybrid


@dataclass(frozen=True)
class Heads:
    """Heads of one layer with the same mechanism; `names` are those of their tensors in files."""

    mechanism: Mechanism
    count: int
    a: int
    dv: int  # the width that values have when they are mixed
    shapes: Mapping[str, tuple[int, ...]]
    names: Mapping[str, str]


@dataclass(frozen=True)
class Level:
    """One layer."""

    width_in: int
    width_out: int
    groups: tuple[Heads, ...]


def stack_of(source: Source) -> Stack:
    """The stack of a spec; other architectures are refused."""
    spec = with_attention(source, "segre run")
    if not isinstance(spec, Network | Hybrid):
        raise UnsupportedError(
            f"spec {quote(str(spec))}: segre run supports only stacks of attention layers; "
            "allowed: "
            f"{', '.join(f'{kind}/' for kind in KINDS)}"
        )
    return spec


@singledispatch
def levels(spec: Any) -> tuple[Level, ...]:
    """The layers of a stack."""
    raise TypeError(f"layers of a {type(spec).__name__} are not supported")


@levels.register
def _network_levels(spec: Network) -> tuple[Level, ...]:
    out = []
    for number, layer in enumerate(spec.layers, 1):
        head = layer.attention
        shapes = {slot.name: slot.shape for slot in network_slots(layer)}
        names = {name: f"layer{number}.{name}" for name in shapes}
        dv = layer.width_out if head.dv is None else head.dv
        group = Heads(mechanism(head.score), head.heads, head.a, dv, shapes, names)
        out.append(Level(layer.width_in, layer.width_out, (group,)))
    return tuple(out)


@levels.register
def _hybrid_levels(spec: Hybrid) -> tuple[Level, ...]:
    out = []
    for number, layer in enumerate(spec.layers, 1):
        groups = tuple(
            Heads(
                group.mechanism,
                group.heads,
                layer.a,
                layer.inner,
                shapes,
                {name: f"layer{number}.{named(n, name)}" for name in shapes},
            )
            for n, (group, shapes) in enumerate(zip(layer.groups, layer.shapes, strict=True))
        )
        out.append(Level(layer.width_in, layer.width_out, groups))
    return tuple(out)
