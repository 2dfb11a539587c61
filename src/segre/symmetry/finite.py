"""Finite symmetries: orders of what is alike, and signs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from math import prod
from typing import Any, Literal

import numpy as np

from segre.architectures import Architecture
from segre.fields.interface import Array
from segre.spec import Network
from segre.symmetry.groups import random_order
from segre.symmetry.means import written
from segre.symmetry.mlp import SCALES, kinds_of_units, unit_ports
from segre.symmetry.space import FloatWeights, Port, Tensor, reader, rotary_planes, writer
from segre.symmetry.wiring import (
    Place,
    expert_layer,
    has,
    layer_parts,
    norm_after,
    norm_before,
    readers,
    stream_places,
)
from segre.transformer.spec import Transformer
from segre.transformer.tensors import CONSTANTS, part_shapes

EMBED = ("embed", "")
Kind = Literal["order", "signs", "order and signs", "order and one sign", "half turns"]


@dataclass(frozen=True)
class Order:
    """A finite group that acts on a space: on the order of its dimensions, and on their signs.

    Signs concern ports of degree 1. With `blocks`, so many dimensions at a time stay together.
    """

    width: int
    kind: Kind
    ports: tuple[Port, ...]
    copies: tuple[int, ...] = ()
    start: int = 0
    blocks: int = 1
    turning: str | None = None

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """Orders and signs, one above the other: (2, *copies, width)."""
        signs = np.ones((*self.copies, self.width))
        order = np.broadcast_to(np.arange(self.width), signs.shape)
        if self.kind == "half turns":
            for pair in rotary_planes(w.transformer, self.turning):
                signs[..., pair] = rng.choice([-1, 1], (*self.copies, 1))
        elif "signs" in self.kind:
            signs[..., self.start :] = rng.choice([-1, 1], signs[..., self.start :].shape)
        elif self.kind == "order and one sign":
            signs *= rng.choice([-1, 1])
        if "order" in self.kind:
            order = random_order(rng, self.width, self.copies, self.start, self.blocks)
        return np.stack([order, signs])

    def act(self, w: FloatWeights, element: Array) -> None:
        """Reorder all ports."""
        order, signs = element
        for port in self.ports:
            port.by_order(w, order.astype(int), signs, len(self.copies))

    def inverse(self, element: Array) -> Array:
        """The inverse order; signs are their own."""
        order = np.argsort(element[0].astype(int), axis=-1)
        return np.stack([order, np.take_along_axis(element[1], order, -1)])

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Those of all ports."""
        return tuple(port.tensor for port in self.ports)

    @property
    def needed(self) -> tuple[Tensor, ...]:
        """None."""
        return ()


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
    yield from gain_signs(spec)
    for part in parts if spec.mlp != "none" else ():
        yield from _units(spec, part)
    for part in parts if spec.mlp != "none" else ():
        yield from _unit_signs(spec, part)
    if spec.pooler and spec.output != "hidden":
        read = "W_rel" if has(spec, "head", "W_rel") else "W_U"
        ports = (writer("head", "W_pool"), writer("head", "b_pool"), reader("head", read))
        order = Order(spec.d, "order and signs", ports)
        name = "signs and order of the pooled units"
        yield Discrete(f"2^{spec.d} . S_{spec.d}", name, 1, (order,))
    yield from _stream(spec)


def _heads(spec: Transformer, part: str) -> Iterator[Discrete]:
    """Heads that are alike, and what is gated entry by entry."""
    shapes = part_shapes(spec, part)
    own = ["W_Q", "b_Q", "R_Q", "W_G", "b_G", "sinks", "normo.gain", "W_O"]
    common = ["W_K", "b_K", "W_V", "b_V"]
    if spec.qknorm == "all":
        own, common = [*own, "normq.gain"], [*common, "normk.gain"]
    groups = tuple(Port((part, n), -4, degree=0) for n in (*own, *common) if n in shapes)
    within = tuple(Port((part, n), -3, degree=0) for n in own if n in shapes)
    orders = (Order(spec.kv, "order", groups), Order(spec.group, "order", within, (spec.kv,)))
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


def gain_signs(spec: Transformer) -> Iterator[Discrete]:
    """Rows that an RMSNorm norms may change sign with its gains."""
    for part in layer_parts(spec) if spec.gain else ():
        own, shapes = spec.at(part), part_shapes(spec, part)
        for norm, copies in (("normq", (own.kv, own.group)), ("normk", (own.kv, 1))):
            if own.qknorm:
                names = (f"W_{norm[-1].upper()}", f"b_{norm[-1].upper()}", f"{norm}.gain")
                ports = tuple(writer(part, n) for n in names if n in shapes)
                yield _gained(own.head, ports, copies if own.qknorm == "all" else ())
        for norm, kind in (("post1", "attention"), ("post2", "mlp")):
            if own.normed_inside and own.norm == "rms" and f"{norm}.gain" in shapes:
                ports = (*written(spec, (part, kind)), writer(part, f"{norm}.gain"))
                yield _gained(own.d, ports)


def _gained(width: int, ports: tuple[Port, ...], copies: tuple[int, ...] = ()) -> Discrete:
    order = Order(width, "signs", ports, copies)
    return Discrete(
        "2", "sign of a gain and of the row that it scales", prod(copies) * width, (order,)
    )


def _units(spec: Transformer, part: str) -> Iterator[Discrete]:
    """Units and experts that are alike."""
    routed = expert_layer(spec, part)
    if routed:
        shapes, size = part_shapes(spec, part), spec.experts // (spec.groups or 1)
        names = ("W_R", "c_R", *(f"{x}_{y}" for x in "Wc" for y in ("gate", "up", "down")))
        ports = tuple(Port((part, n), -3, degree=0) for n in names if n in shapes)
        ports += tuple(Port((part, n), -3, degree=0) for n in CONSTANTS)
        order = Order(spec.experts, "order", ports, blocks=size if spec.groups else 1)
        group, what = f"S_{spec.experts}", "experts"
        if spec.groups:
            group, what = f"S_{size} wr S_{spec.groups}", "experts within their group, and groups"
        yield Discrete(group, what, 1, (order,))
    of = ("of an expert", "of the shared expert")
    for (prefix, copies, width), what in zip(kinds_of_units(spec, part), of, strict=False):
        if width:
            order = Order(width, "order", unit_ports(spec, part, prefix), copies)
            name = f"hidden units {what}" if routed else "hidden units"
            yield Discrete(f"S_{width}", name, copies[0] if copies else 1, (order,))


def _unit_signs(spec: Transformer, part: str) -> Iterator[Discrete]:
    signed = spec.gated and spec.mlp in SCALES and spec.mlp != "reglu"
    for prefix, copies, width in kinds_of_units(spec, part):
        times = (copies[0] if copies else 1) * width
        if spec.mlp == "bilinear":
            yield Discrete("2", "exchange of gate and up of a unit", times)
        if signed:
            order = Order(width, "signs", unit_ports(spec, part, prefix), copies)
            yield Discrete("2", "sign of a unit's up and down", times, (order,))


def _stream(spec: Transformer) -> Iterator[Discrete]:
    """Where gains fix the axes of the stream, their order and signs are left."""
    free = [place for place in stream_places(spec) if place.free]
    if spec.norm == "none" or not spec.gain or spec.output == "hidden" or not free:
        return
    if not (spec.tied or spec.place != "pre"):
        return
    for joined in _joined(spec, free):
        ports = tuple(dict.fromkeys(p for place in joined for p in _stream_ports(spec, place)))
        unsigned = spec.tied and spec.transform and not (spec.embed or spec.headnorm)
        if spec.norm == "rms" and not unsigned:
            order = Order(spec.d, "order and signs", ports)
            group, what = f"2^{spec.d} . S_{spec.d}", "signs and order of the stream's coordinates"
        elif not unsigned:
            order = Order(spec.d, "order and one sign", ports)
            group = f"2 . S_{spec.d}"
            what = "order of the stream's coordinates, and one common sign"
        else:
            order = Order(spec.d, "order", ports)
            group, what = f"S_{spec.d}", "order of the stream's coordinates"
        yield Discrete(group, what, 1, (order,))


def _joined(spec: Transformer, free: list[Place]) -> list[list[Place]]:
    """Places that have one basis: all, if skips join them; those of a tied table."""
    if spec.residual:
        return [free[:1]]
    if not spec.table_reads or spec.embed:
        return [[place] for place in free]
    table = [p for p in free if EMBED in p.producers or ("head", "") in p.consumers]
    return [table, *([place] for place in free if place not in table)]


def _stream_ports(spec: Transformer, place: Place) -> tuple[Port, ...]:
    """All that writes to the stream and reads it, with the norms in between."""
    out = [port for end in place.producers for port in written(spec, end)]
    for end in place.consumers:
        out += [reader(read.part, read.weight) for read in readers(spec, end)]
    sites = [norm_after(spec, end) for end in place.producers if not (spec.embed and end == EMBED)]
    sites += [norm_before(spec, end) for end in place.consumers]
    for site in sites:
        if site is not None:
            out += [writer(site.part, site.gain, degree=0)] if site.gain else []
            out += [writer(site.part, site.bias)] if site.bias else []
    follows = spec.tied and spec.transform and not spec.embed
    if follows and EMBED in place.producers:  # the order of the table
        names = (("W_T", 0), ("b_T", 0), ("normT.gain", 1), ("normT.bias", 1))
        out += [writer("head", n, degree=k) for n, k in names if has(spec, "head", n)]
    return tuple(out)
