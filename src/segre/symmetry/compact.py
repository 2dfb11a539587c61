"""What is left of the group once weights are balanced: isometries, orders and signs.

By name, in the order in which elements act: first those of the stream, then those of each layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from segre.fields.interface import Array
from segre.symmetry.attention import head_pieces, rotary_basis
from segre.symmetry.basis import Basis
from segre.symmetry.orders import (
    Kind,
    Order,
    embedding_order,
    expert_order,
    gain_orders,
    head_orders,
    pooled_order,
    stream_orders,
    transform_order,
    unit_orders,
)
from segre.symmetry.space import FloatWeights
from segre.symmetry.stream import stream_pieces
from segre.symmetry.wiring import expert_layer
from segre.transformer.spec import Transformer

Elements = dict[str, Array]  # by name
Freedom = Literal["none", "orthogonal"] | Kind
LATENTS = {"A_K": "latents.keys", "A_Q": "latents.queries"}
BASES = {"stream-turns": "stream", "embedding-turns": "embeddings"}


@lru_cache(maxsize=32)
def of_stream(spec: Transformer) -> Mapping[str, Basis | Order]:
    """The stream, embeddings of another width, and the units between the stream and logits."""
    out: dict[str, Basis | Order | None] = {
        "embeddings": embedding_order(spec),
        "stream": next(stream_orders(spec), None),
        "transform": transform_order(spec),
        "pooled": pooled_order(spec),
    }
    for piece in stream_pieces(spec):
        if piece.kind in BASES and isinstance(piece.build, Basis):
            out[BASES[piece.kind]] = _isometries(piece.build)
    return {name: one for name, one in out.items() if one is not None}


def stream_freedom(spec: Transformer) -> Freedom:
    """What is free in the basis of the stream."""
    one = of_stream(spec).get("stream")
    return "none" if one is None else one.kind if isinstance(one, Order) else "orthogonal"


def after(spec: Transformer, second: Elements, first: Elements) -> Elements:
    """The elements of the stream that act like two, one after the other."""
    group = of_stream(spec)
    both = {n: group[n].after(x, first[n]) for n, x in second.items() if n in first}
    return first | second | both


@lru_cache(maxsize=256)
def of_layer(spec: Transformer, part: str) -> Mapping[str, Basis | Order]:
    """Signs of gains, latents, heads with their bases, experts and units of a layer."""
    gains = gain_orders(spec, part)
    out: dict[str, Basis | Order] = {n: gains[n] for n in ("post1", "post2") if n in gains}
    bases = dict(_bases(spec, part))
    out |= {name: one for name, one in bases.items() if name.startswith("latents")}
    out["heads"], out["queries"] = head_orders(spec, part)
    out |= {name: bases[name] for name in ("vo",) if name in bases}
    out |= {name: gains[name] for name in ("normq", "normk") if name in gains}
    out |= {name: bases[name] for name in ("qk", "still") if name in bases}
    if expert_layer(spec, part):
        out["experts"] = expert_order(spec, part)
    return out | unit_orders(spec, part)


def _bases(spec: Transformer, part: str) -> Iterator[tuple[str, Basis]]:
    own = spec.at(part)
    turning = own.rotary_dim and not own.latent
    if own.qknorm and turning:  # planes whose gains are equal can rotate
        yield "qk", rotary_basis(own, part)
    for piece in head_pieces(spec, part):
        one = piece.build
        if not isinstance(one, Basis):
            continue
        if piece.kind == "rotary":
            yield "latents.planes" if own.latent else "qk", one
        elif piece.kind == "latent-turns":
            yield LATENTS[one.ports[0].tensor[1]], _isometries(one)
        elif one.group == "gl":
            name = "vo" if piece.kind == "value-output" else "still" if turning else "qk"
            yield name, replace(_isometries(one), group="o")


def _isometries(one: Basis) -> Basis:
    """What is left of a basis once gains are 1."""
    return replace(one, ports=tuple(replace(port, gain=None) for port in one.ports))


def act(
    spec: Transformer,
    part: str,
    elements: Elements,
    tensors: dict[str, Array],
    *,
    stream: bool = False,
    owned: bool = False,
) -> None:
    """Act on the tensors of a part, in place: with elements of the `stream`, or of a layer."""
    group = of_stream(spec) if stream else of_layer(spec, part)
    w = FloatWeights.of(spec, part, tensors)
    w.owned = owned
    for name, element in elements.items():
        group[name].act(w, element)
    tensors.update(w.part(part))
