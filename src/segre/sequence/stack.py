"""The layers of a stack as groups of heads: their weights and their mechanisms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from segre.attention.mechanism import Mechanism
from segre.models import Source, only
from segre.spec import KINDS, Network
from segre.stack.stages import named


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


def stack_of(source: Source) -> Network:
    """The stack of a spec; other architectures are refused."""
    allowed = ", ".join(f"{kind}/" for kind in KINDS)
    why = f"segre model run supports only stacks of attention layers; allowed: {allowed}"
    return only(Network, source, why)


def levels(spec: Network) -> tuple[Level, ...]:
    """The layers of a stack."""
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
