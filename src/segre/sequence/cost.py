"""What does a network cost on t tokens: operations, memory, and what it keeps for later tokens?

Counted, not measured: a multiplication with an addition is two operations. Numbers are in single
precision by default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import singledispatch
from math import prod
from typing import Any, ClassVar

from segre.architectures import Architecture
from segre.attention.mechanism import Mechanism
from segre.errors import SpecError
from segre.finding import Status, Unbounded
from segre.models import Source, with_attention
from segre.sequence.choice import Sizes, choose, crossover, method_cost, state_size
from segre.sequence.forms import factors
from segre.shown import Tabular
from segre.spec import Network
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes, routed
from segre.values import LARGEST, whole

SINGLE = 4  # bytes


@dataclass(frozen=True)
class Alike:
    """Heads with one mechanism in layers that cost the same."""

    mechanism: Mechanism
    heads: int
    a: int
    dv: int
    width: int  # of the tokens
    maps: int  # weights that a token meets in such a layer, beside mixing
    kept: int  # numbers of a token that later queries need, without features
    layers: int = 1


@dataclass(frozen=True)
class CostLine:
    """The cost of equal heads at one sequence length, over all their layers."""

    tokens: int
    layers: int
    heads: int
    mechanism: str
    method: str
    operations: int  # of mixing
    dense: int  # the same by the dense method
    maps: int  # operations of all linear maps: projections, MLPs
    bytes: int  # of one layer
    state: int | None  # numbers kept for later tokens; None if outputs depend on later ones
    crossover: int | None  # from how many tokens on there is a better method than the dense one


@dataclass(frozen=True)
class Costs(Tabular, Unbounded):
    """The cost of a network at several sequence lengths."""

    spec: Architecture
    lines: tuple[CostLine, ...]
    rest: int  # operations for each token that belong to no layer
    status: ClassVar[Status] = "exact"
    how: ClassVar[str] = "operations counted for the method expected to be fastest in every layer"

    @property
    def tokens(self) -> tuple[int, ...]:
        """The sequence lengths."""
        return tuple(dict.fromkeys(line.tokens for line in self.lines))

    @property
    def value(self) -> tuple[int, ...]:
        """Total operations at each sequence length."""
        return tuple(self.total(tokens) for tokens in self.tokens)

    def total(self, tokens: int) -> int:
        """Total operations at one sequence length."""
        own = [line for line in self.lines if line.tokens == tokens]
        return self.rest * tokens + sum(line.operations + line.maps for line in own)

    def state(self, tokens: int) -> int | None:
        """Size of the state kept for later tokens; None if outputs depend on later tokens."""
        own = [line.state for line in self.lines if line.tokens == tokens]
        known = [one for one in own if one is not None]
        return sum(known) if len(known) == len(own) else None

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "spec": str(self.spec),
            "costs": [
                {
                    "tokens": tokens,
                    "operations": self.total(tokens),
                    "state": self.state(tokens),
                    "parts": [asdict(line) for line in self.lines if line.tokens == tokens],
                }
                for tokens in self.tokens
            ],
        }


def cost(spec: Source, t: int | Sequence[int] | None = None, *, number: int = SINGLE) -> Costs:
    """The cost of a network on t tokens, or on each of several sequence lengths.

    `t` is a sequence length or several (by default that of the spec), `number` the size of a number
    in bytes.

    >>> found = cost("lightning/d=64,64/a=64/t=3", [4096, 8192])
    >>> [(line.tokens, line.method) for line in found.lines]
    [(4096, 'linear'), (8192, 'linear')]
    """
    net = with_attention(spec, "segre model cost")
    given = [net.t] if t is None else list(t) if isinstance(t, list | tuple) else [t]
    if not given:
        raise SpecError("t: no sequence length was given; for example 4096")
    return costs_of(net, [whole("t", n, LARGEST) for n in given], number)


def costs_of(net: Architecture, tokens: Sequence[int], number: int = SINGLE) -> Costs:
    """The cost of an architecture on each of several sequence lengths."""
    alike, rest = alike_heads(net)
    # heads that differ only in their layer are counted once
    merged = [replace(one, layers=count) for one, count in Counter(alike).items()]
    lines = [_line(one, n, number) for n in tokens for one in merged]
    return Costs(net, tuple(lines), rest)


def _line(one: Alike, n: int, number: int) -> CostLine:
    how, sizes = one.mechanism, Sizes(n, one.a, one.dv, one.heads, number)
    method = choose(how, sizes)
    chosen = method_cost(how, sizes, method)
    state = state_size(how, sizes)
    if state is not None and not factors(how):
        state = state // (one.heads * (one.a + one.dv)) * one.kept
    arrays = n * (2 * one.width + 2 * one.heads * (one.a + one.dv))
    return CostLine(
        tokens=n,
        layers=one.layers,
        heads=one.heads,
        mechanism=how.text,
        method=method,
        operations=one.layers * chosen.operations,
        dense=one.layers * method_cost(how, sizes, "dense").operations,
        maps=2 * one.layers * one.maps * n,
        bytes=arrays * number + chosen.bytes,
        state=None if state is None else one.layers * state,
        crossover=crossover(how, sizes),
    )


@singledispatch
def alike_heads(spec: Any) -> tuple[list[Alike], int]:
    """The heads of every layer, and the operations for each token that belong to no layer."""
    raise TypeError(f"costs of a {type(spec).__name__} are not supported")


@alike_heads.register(Network)
def _of_stack(spec: Network) -> tuple[list[Alike], int]:
    out = []
    for layer in spec.layers:
        width = max(layer.width_in, layer.width_out)
        for group, shapes in zip(layer.groups, layer.shapes, strict=True):
            maps = sum(prod(shape) for shape in shapes.values())
            kept = group.heads * (layer.a + layer.inner)
            sizes = (group.heads, layer.a, layer.inner, width, maps, kept)
            out.append(Alike(group.mechanism, *sizes))
    return out, 0


@alike_heads.register(Transformer)
def _of_transformer(spec: Transformer) -> tuple[list[Alike], int]:
    a = spec.head + (spec.rotary_dim if spec.latent else 0)
    out = []
    for layer in range(1, spec.layers + 1):
        own = spec.at(layer)
        window = own.window[(layer - 1) % len(own.window)] if own.window else 0
        how = replace(own.mechanism, causal=spec.causal, window=window - 1 if window else None)
        kept = spec.kvrank + spec.rotary_dim if spec.latent else own.kv * (a + spec.dv)
        maps = _met(spec, 1 if spec.share else layer)
        out.append(Alike(how, spec.heads, a, spec.dv, spec.d, maps, kept))
    head = part_shapes(spec, "head")
    rest = sum(prod(shape) for shape in head.values() if min(shape) > 1)
    if spec.discrete and spec.tied and spec.output != "hidden" and not spec.labels:
        rest += (spec.embed or spec.d) * spec.vocab
    return out, 2 * rest


def _met(spec: Transformer, layer: int) -> int:
    """How many weights of a layer's matrices a token meets: of experts, those that it uses."""
    total = 0
    for name, shape in part_shapes(spec, str(layer)).items():
        size = prod(shape)
        if routed(spec, layer) and name in ("W_gate", "W_up", "W_down"):
            size = size // spec.experts * spec.active
        total += size if shape[-1] > 1 else 0
    return total
