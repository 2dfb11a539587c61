"""Orders of what is alike, and signs: the elements of finite groups, place by place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from segre.fields.interface import Array
from segre.symmetry.groups import random_order
from segre.symmetry.means import written
from segre.symmetry.mlp import SCALES, kinds_of_units, unit_ports
from segre.symmetry.space import FloatWeights, OfPorts, Port, Tensor, reader, rotary_planes, writer
from segre.symmetry.wiring import (
    Place,
    has,
    layer_scale,
    norm_after,
    norm_before,
    own_sublayers,
    places,
    readers,
    stream_places,
)
from segre.transformer.spec import Transformer
from segre.transformer.tensors import CONSTANTS, part_shapes

EMBED, HEAD, TOKENS = ("embed", ""), ("head", ""), ("embed", "tokens")
Kind = Literal["order", "signs", "one sign", "order and signs", "order and one sign", "half turns"]


@dataclass(frozen=True)
class Order(OfPorts):
    """A finite group that acts on a space: on the order of its dimensions, and on their signs.

    Signs concern ports of degree 1. With `blocks`, so many dimensions at a time stay together.
    Signs that are chosen `by` gains make their product positive.
    """

    width: int
    kind: Kind
    ports: tuple[Port, ...]
    copies: tuple[int, ...] = ()
    start: int = 0
    blocks: int = 1
    turning: str | None = None
    by: tuple[Tensor, ...] = ()

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """Orders and signs, one above the other: (2, *copies, width)."""
        signs = np.ones((*self.copies, self.width))
        order = np.broadcast_to(np.arange(self.width), signs.shape)
        if self.kind == "half turns":
            for pair in rotary_planes(w.transformer, self.turning):
                signs[..., pair] = rng.choice([-1, 1], (*self.copies, 1))
        elif "signs" in self.kind:
            signs[..., self.start :] = rng.choice([-1, 1], signs[..., self.start :].shape)
        elif "one sign" in self.kind:
            signs *= rng.choice([-1, 1])
        if "order" in self.kind:
            order = random_order(rng, self.width, self.copies, self.start, self.blocks)
        return np.stack([order, signs])

    def act(self, w: FloatWeights, element: Array) -> None:
        """Reorder all ports."""
        order, signs = element[0].astype(int), element[1]
        moved = order if (order != np.arange(self.width)).any() else None
        for port in self.ports:
            port.by_order(w, moved, signs, len(self.copies))

    def inverse(self, element: Array) -> Array:
        """The inverse order; signs are their own."""
        order = np.argsort(element[0].astype(int), axis=-1)
        return np.stack([order, np.take_along_axis(element[1], order, -1)])

    def identity(self, _spec: Transformer) -> Array:
        """The element that does nothing."""
        return self.of()

    def of(self, order: Array | None = None, signs: Array | None = None) -> Array:
        """The element with this order and these signs; those that are not given do nothing."""
        out = np.ones((2, *self.copies, self.width))
        out[0] = np.arange(self.width) if order is None else order
        if signs is not None:
            out[1] = signs
        return out

    def after(self, second: Array, first: Array) -> Array:
        """The element that acts like two, one after the other."""
        order = second[0].astype(int)
        every = [np.take_along_axis(x, order, -1) for x in first]
        return np.stack([every[0], every[1] * second[1]])

    def on(self, element: Array, x: Array) -> Array:
        """What the rows of a matrix become that are vectors of the space."""
        return np.asarray(np.take(x, element[0].astype(int), -2) * element[1][:, None])

    def still(self, element: Array) -> bool:
        """Whether all dimensions stay in their place, up to their signs."""
        return bool((element[0] == np.arange(self.width)).all())


# --- layers ------------------------------------------------------------------------------------


def _alike(spec: Transformer, part: str, names: list[str], axis: int) -> tuple[Port, ...]:
    """The tensors of these names that there are; signs do not concern them."""
    return tuple(Port((part, n), axis, degree=0) for n in names if has(spec, part, n))


def head_orders(spec: Transformer, part: str) -> tuple[Order, Order]:
    """The orders of key-value heads, and of the query heads of each."""
    own = ["W_Q", "b_Q", "R_Q", "W_G", "b_G", "sinks", "normo.gain", "W_O"]
    common = ["W_K", "b_K", "W_V", "b_V"]
    if spec.qknorm == "all":
        own, common = [*own, "normq.gain"], [*common, "normk.gain"]
    groups, within = _alike(spec, part, [*own, *common], -4), _alike(spec, part, own, -3)
    return Order(spec.kv, "order", groups), Order(spec.group, "order", within, (spec.kv,))


def gain_orders(spec: Transformer, part: str) -> dict[str, Order]:
    """Rows that an RMSNorm norms may change sign with its gains; by norm."""
    if not spec.gain:
        return {}
    out, own, shapes = {}, spec.at(part), part_shapes(spec, part)
    for norm, copies in (("normq", (own.kv, own.group)), ("normk", (own.kv, 1))):
        if own.qknorm:
            names = (f"W_{norm[-1].upper()}", f"b_{norm[-1].upper()}", f"{norm}.gain")
            ports = tuple(writer(part, n) for n in names if n in shapes)
            heads = copies if own.qknorm == "all" else ()
            out[norm] = Order(own.head, "signs", ports, heads, by=((part, f"{norm}.gain"),))
    for norm, kind in (("post1", "attention"), ("post2", "mlp")):
        if own.normed_inside and own.norm == "rms" and f"{norm}.gain" in shapes:
            ports = (*written(spec, (part, kind)), writer(part, f"{norm}.gain"))
            out[norm] = Order(own.d, "signs", ports, by=((part, f"{norm}.gain"),))
    return out


def expert_order(spec: Transformer, part: str) -> Order:
    """The order of experts: of groups, and within each."""
    names = ["W_R", "c_R", *(f"{x}_{y}" for x in "Wc" for y in ("gate", "up", "down"))]
    ports = _alike(spec, part, names, -3) + tuple(Port((part, n), -3, degree=0) for n in CONSTANTS)
    blocks = spec.experts // spec.groups if spec.groups else 1
    return Order(spec.experts, "order", ports, blocks=blocks)


def unit_orders(spec: Transformer, part: str) -> dict[str, Order]:
    """The order of hidden units, and their signs; of experts, and of shared experts."""
    out = {}
    names = ("units", "signs"), ("shared", "shared_signs")
    signed = spec.gated and spec.mlp in SCALES and spec.mlp != "reglu"
    kinds = kinds_of_units(spec, part) if spec.mlp != "none" else []
    for (prefix, copies, width), (order, signs) in zip(kinds, names, strict=False):
        ports = unit_ports(spec, part, prefix)
        out[order] = Order(width, "order", ports, copies)
        if signed:
            out[signs] = Order(width, "signs", ports, copies)
    return out


# --- the stream --------------------------------------------------------------------------------


def pooled_order(spec: Transformer) -> Order | None:
    """The units of a pooler that labels read; tanh is odd."""
    if not spec.pooler or spec.output == "hidden":
        return None
    read = "W_rel" if has(spec, "head", "W_rel") else "W_U"
    ports = (writer("head", "W_pool"), writer("head", "b_pool"), reader("head", read))
    return Order(spec.d, "order and signs", ports)


def transform_order(spec: Transformer) -> Order | None:
    """The units between the stream and an unembedding of its own."""
    if not spec.transform or spec.tied:
        return None
    ports = (*_transform(spec), reader("head", "W_U"))
    return Order(spec.head_width, "order", ports)


def _transform(spec: Transformer) -> tuple[Port, ...]:
    """The units between the stream and the unembedding, which have the order of its rows."""
    names = (("W_T", 0), ("b_T", 0), ("normT.gain", 1), ("normT.bias", 1))
    return tuple(writer("head", n, degree=k) for n, k in names if has(spec, "head", n))


def _following(spec: Transformer, kind: Kind) -> Kind:
    """What is free where a tied table is read after units that have no signs: no sign, or all."""
    unsigned = spec.tied and spec.transform and not has(spec, "head", "normT.gain")
    return "order" if unsigned else kind


def embedding_order(spec: Transformer) -> Order | None:
    """The order and the common sign of embeddings of another width, before a tied table."""
    if not (spec.embed and spec.tied and spec.transform):
        return None
    names = (("tokens", 1), ("positions", 1), ("types", 1), ("norm.gain", 0), ("norm.bias", 1))
    ports = [writer("embed", n, degree=k) for n, k in names if has(spec, "embed", n)]
    ports += [reader("embed", "W_E"), *_transform(spec)]
    centred = spec.embnorm and spec.norm == "layer"
    kind: Kind = "order and one sign" if centred else "order and signs"
    return Order(spec.embed, _following(spec, kind), tuple(ports))


def stream_orders(spec: Transformer) -> Iterator[Order]:
    """The order and signs of the stream's coordinates, where gains fix its axes."""
    free = [place for place in stream_places(spec) if place.free]
    if spec.norm == "none" or not spec.gain or spec.output == "hidden" or not free:
        return
    if not (spec.tied or spec.place != "pre"):
        return
    kind: Kind = "order and signs" if spec.norm == "rms" else "order and one sign"
    for joined in _joined(spec, free):
        ports = [port for place in joined for port in place_ports(spec, place)]
        ports += [
            writer(part, name, degree=0)
            for part, written in {port.tensor: None for port in ports}
            if (name := layer_scale(spec, (part, written))) is not None
        ]
        if spec.tied and not spec.embed and any(EMBED in place.producers for place in joined):
            ports += _transform(spec)
        yield Order(
            spec.d, kind if spec.embed else _following(spec, kind), tuple(dict.fromkeys(ports))
        )


def _joined(spec: Transformer, free: list[Place]) -> list[list[Place]]:
    """Places that have one basis: all, if skips join them; those of a tied table."""
    if spec.residual:
        return [free[:1]]
    if not spec.table_reads or spec.embed:
        return [[place] for place in free]
    table = [p for p in free if EMBED in p.producers or ("head", "") in p.consumers]
    return [table, *([place] for place in free if place not in table)]


@lru_cache(maxsize=32)
def stream_ports(spec: Transformer) -> tuple[Port, ...]:
    """All that writes to the stream at its first place, and reads it there; with skips, all."""
    return tuple(dict.fromkeys(place_ports(spec, stream_places(spec)[0])))


def place_ports(spec: Transformer, place: Place) -> Iterator[Port]:
    """All that writes to the stream and reads it, with the norms in between."""
    for end in place.producers:
        yield from written(spec, end)
    for end in place.consumers:
        for read in readers(spec, end):
            yield reader(read.part, read.weight)
    sites = [norm_after(spec, end) for end in place.producers if not (spec.embed and end == EMBED)]
    sites += [norm_before(spec, end) for end in place.consumers]
    for site in sites:
        if site is not None and site.gain:
            yield writer(site.part, site.gain, degree=0)
        if site is not None and site.bias:
            yield writer(site.part, site.bias)


# --- signs of norms ------------------------------------------------------------------------------


def sign_orders(spec: Transformer) -> Iterator[Order]:
    """Signs that norms pass on: those of their gains, of what they norm, and of what reads them."""
    if not spec.gain or spec.norm == "none":
        return
    seen = spec.output == "hidden" and spec.embedded  # the last gain takes signs back
    if spec.norm == "layer":
        yield from _table_signs(spec, seen)
        if spec.place == "post" and spec.residual:
            yield from _signs_between(spec, seen and not (spec.share and spec.layers > 1))
    if seen and spec.final:
        gain = writer("head", "norm.gain")
        ports = (*(port for port in stream_ports(spec) if port.tensor[0] != "head"), gain)
        kind: Kind = "signs" if spec.norm == "rms" else "one sign"
        yield Order(spec.d, kind, ports, by=(gain.tensor,))


def _table_signs(spec: Transformer, seen: bool) -> Iterator[Order]:
    """The tables before a norm; a tied one is taken back before the logits."""
    if not spec.embnorm or spec.embed:
        return
    ports = [*written(spec, EMBED), writer("embed", "norm.gain")]
    if spec.place == "post" and seen:
        yield Order(spec.d, "one sign", tuple(ports), by=_post_gains(spec))
    elif spec.place != "post" and spec.tied and has(spec, "head", "normT.gain"):
        back = [writer("head", n) for n in ("normT.gain", "normT.bias") if has(spec, "head", n)]
        yield Order(spec.d, "one sign", (*ports, *back), by=(ports[-1].tensor,))


def _post_gains(spec: Transformer) -> tuple[Tensor, ...]:
    """The gains of the norms that the stream passes, if these are after skips."""
    ends = [EMBED] if spec.embnorm and not spec.embed else []
    sites = [norm_after(spec, end) for end in (*ends, *own_sublayers(spec))]
    return tuple((site.part, site.gain) for site in sites if site is not None and site.gain)


def _signs_between(spec: Transformer, seen: bool) -> Iterator[Order]:
    """The stream between two norms after skips; the sign before the last one stays, if seen."""
    before: tuple[Tensor, ...] = ()
    for place in places(spec, carried=False):
        if not place.free or HEAD in place.consumers:
            continue
        ports: list[Port] = []
        for end in place.producers:
            site = None if spec.embed and end == EMBED else norm_after(spec, end)
            if site is None:
                ports += written(spec, end)
                continue
            ports += [writer(site.part, name) for name in (site.gain, site.bias) if name]
            before += ((site.part, site.gain),) if site.gain else ()
        for end in place.consumers:
            site = norm_after(spec, end)
            assert site is not None
            ports += [reader(read.part, read.weight) for read in readers(spec, end)]
            ports += [*written(spec, end), writer(site.part, f"{site.name}.gain")]
        tied = spec.tied and not spec.embed and Port(TOKENS) in ports
        if not tied or spec.output == "hidden":
            by = _post_gains(spec)[len(before) :] if seen else before
            yield Order(spec.d, "one sign", tuple(ports), by=by)
