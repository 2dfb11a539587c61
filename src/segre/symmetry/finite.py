"""Finite symmetries in words: orders of what is alike, and signs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from math import prod
from typing import Any

from segre.architectures import Architecture
from segre.spec import Network
from segre.symmetry.mlp import kinds_of_units
from segre.symmetry.orders import (
    Order,
    embedding_order,
    expert_order,
    gain_orders,
    head_orders,
    pooled_order,
    sign_orders,
    stream_orders,
    transform_order,
    unit_orders,
)
from segre.symmetry.space import reader, writer
from segre.symmetry.wiring import expert_layer, layer_parts
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes


@dataclass(frozen=True)
class Discrete:
    """A finite group that acts on the weights at each of `times` places."""

    group: str
    what: str
    times: int
    orders: tuple[Order, ...] = ()

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"group": self.group, "what": self.what, "places": self.times}


@singledispatch
def discrete_symmetries(_spec: Architecture) -> tuple[Discrete, ...]:
    """The finite groups that are known; of polynomial networks none are listed."""
    return ()


@discrete_symmetries.register
def _of_transformer(spec: Transformer) -> tuple[Discrete, ...]:
    """The groups, attention first.

    >>> net = Transformer.parse("transformer/d=6/heads=4/kv=2/head=2/mlp=swiglu/ff=7/t=3")
    >>> [(found.group, found.what) for found in discrete_symmetries(net)][:2]
    [('S_2 wr S_2', 'query heads within their group, and groups'), ('S_7', 'hidden units')]
    """
    found: dict[tuple[str, str], Discrete] = {}
    for one in finite(spec):
        key = (one.group, one.what)
        before = found.get(key, Discrete(*key, 0))
        orders = (*before.orders, *one.orders)
        found[key] = Discrete(*key, before.times + one.times, orders)
    return tuple(one for one in found.values() if one.times)


@discrete_symmetries.register
def discrete_of_stack(spec: Network) -> tuple[Discrete, ...]:
    """Permutations of the heads that have the same mechanism, and of features.

    >>> net = Network.parse("mix/d=4,4/a=2/heads=linear*3+softmax/t=3")
    >>> [(found.group, found.what) for found in discrete_of_stack(net)]
    [('S_3', 'heads of the same mechanism'), ('S_2', 'features of a head')]
    """
    found: Counter[tuple[str, str]] = Counter()
    for layer in spec.layers:
        for group in layer.groups:
            if group.heads > 1:
                found[f"S_{group.heads}", "heads of the same mechanism"] += 1
            one = group.mechanism
            if one.feature != "none" and layer.a > 1:
                found[f"S_{layer.a}", "features of a head"] += group.heads
            if one.gate == "element" and layer.dv is not None and layer.dv > 1:
                found[f"S_{layer.dv}", "gated entries of a head"] += group.heads
    return tuple(Discrete(group, what, times) for (group, what), times in found.items())


def finite(spec: Transformer) -> Iterator[Discrete]:
    """The groups, place by place."""
    parts = layer_parts(spec)
    for part in parts:
        yield from _heads(spec.at(part), part)
    for part in parts if spec.qknorm and spec.gain else ():
        yield from _normed(spec.at(part), part)
    for part in parts:
        for order in gain_orders(spec, part).values():
            what, times = "sign of a gain and of the row that it scales", prod(order.copies)
            yield Discrete("2", what, times * order.width, (order,))
    for part in parts if spec.mlp != "none" else ():
        yield from _units(spec, part)
    for part in parts if spec.mlp != "none" else ():
        yield from _unit_signs(spec, part)
    every = (
        (pooled_order(spec), "of the pooled units"),
        (transform_order(spec), "of the units before the logits"),
        (embedding_order(spec), "of the embeddings' coordinates"),
        *((order, "of the stream's coordinates") for order in stream_orders(spec)),
    )
    for found, what in every:
        if found is not None:
            yield _ordered(found, what)
    for order in sign_orders(spec):
        if order.kind == "signs":
            what = "signs of the stream's coordinates, taken back by the last gain"
            yield Discrete(f"2^{order.width}", what, 1, (order,))
        else:
            yield Discrete(
                "2", "sign of the stream on one side of a norm, and of its gain", 1, (order,)
            )


def _ordered(order: Order, what: str) -> Discrete:
    """An order, with signs or without, in words."""
    n = order.width
    if order.kind == "order and signs":
        return Discrete(f"2^{n} . S_{n}", f"signs and order {what}", 1, (order,))
    if order.kind == "order and one sign":
        return Discrete(f"2 . S_{n}", f"order {what}, and one common sign", 1, (order,))
    return Discrete(f"S_{n}", f"order {what}", 1, (order,))


def _heads(spec: Transformer, part: str) -> Iterator[Discrete]:
    """Heads that are alike, and what is gated entry by entry."""
    shapes, orders = part_shapes(spec, part), head_orders(spec, part)
    if spec.decay != "none":
        pass  # every head has a decay of its own
    elif spec.group > 1 and spec.kv > 1:
        what = "query heads within their group, and groups"
        yield Discrete(f"S_{spec.group} wr S_{spec.kv}", what, 1, orders)
    elif spec.heads > 1:
        yield Discrete(f"S_{spec.heads}", "heads", 1, orders)
    if spec.gate == "element" and spec.dv > 1:
        names = ("W_V", "b_V", "W_G", "b_G", "normo.gain")
        ports = tuple(writer(part, n, degree=0) for n in names if n in shapes)
        order = Order(spec.dv, "order", (*ports, reader(part, "W_O", degree=0)), (spec.kv,))
        yield Discrete(f"S_{spec.dv}", "gated entries of a head", spec.kv, (order,))


def _normed(spec: Transformer, part: str) -> Iterator[Discrete]:
    """Normed queries and keys, by how many dimensions turn."""
    shapes, own = part_shapes(spec, part), spec.qknorm == "all"
    ports = tuple(writer(part, n) for n in ("W_Q", "b_Q", "W_K", "b_K") if n in shapes)
    ports += tuple(writer(part, n, degree=0) for n in ("normq.gain", "normk.gain"))
    copies, times = ((spec.kv,), spec.kv) if own else ((), 1)
    still = spec.head - spec.rotary_dim
    if still:
        order = Order(spec.head, "order and signs", ports, copies, spec.rotary_dim)
        what = "signs and order of normed dimensions"
        yield Discrete(f"2^{still} . S_{still}", what, times, (order,))
    if spec.rotary_dim:
        turns = Order(spec.head, "half turns", ports, copies, turning=part)
        what = "half turns of rotary planes"
        yield Discrete(f"2^{spec.rotary_dim // 2}", what, times, (turns,))


def _units(spec: Transformer, part: str) -> Iterator[Discrete]:
    """Units and experts that are alike."""
    routed = expert_layer(spec, part)
    if routed:
        order = expert_order(spec, part)
        group, what = f"S_{spec.experts}", "experts"
        if spec.groups:
            group = f"S_{order.blocks} wr S_{spec.groups}"
            what = "experts within their group, and groups"
        yield Discrete(group, what, 1, (order,))
    orders = unit_orders(spec, part)
    for name, of in (("units", "of an expert"), ("shared", "of the shared expert")):
        if name in orders and orders[name].width:
            title = f"hidden units {of}" if routed else "hidden units"
            own = orders[name]
            yield Discrete(f"S_{own.width}", title, prod(own.copies), (own,))


def _unit_signs(spec: Transformer, part: str) -> Iterator[Discrete]:
    orders = unit_orders(spec, part)
    for (_, copies, width), signs in zip(
        kinds_of_units(spec, part), ("signs", "shared_signs"), strict=False
    ):
        times = prod(copies) * width
        if spec.mlp == "bilinear":
            yield Discrete("2", "exchange of gate and up of a unit", times)
        if signs in orders:
            yield Discrete("2", "sign of a unit's up and down", times, (orders[signs],))
