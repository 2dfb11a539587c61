"""Discrete symmetries of a transformer: permutations and signs, beside the continuous families."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from segre.geometry.gauge.units import SCALES
from segre.geometry.gauge.wiring import layer_parts, stream_places
from segre.spec import Network
from segre.transformer.spec import Transformer
from segre.transformer.tensors import routed


@dataclass(frozen=True)
class Discrete:
    """A finite group that acts on the weights at each of `times` places."""

    group: str
    what: str
    times: int

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"group": self.group, "what": self.what, "places": self.times}


def discrete_symmetries(spec: Transformer) -> tuple[Discrete, ...]:
    """The groups, attention first.

    >>> net = Transformer.parse("transformer/d=6/heads=4/kv=2/head=2/mlp=swiglu/ff=7/t=3")
    >>> [(found.group, found.what) for found in discrete_symmetries(net)][:2]
    [('S_2 wr S_2', 'query heads within their group, and groups'), ('S_7', 'hidden units')]
    """
    return tuple(found for found in _all(spec) if found.times)


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


def _all(spec: Transformer) -> Iterator[Discrete]:
    layers = len(layer_parts(spec))
    kinds = Counter(spec.at(part) for part in layer_parts(spec)) if spec.by_mechanism else None
    for own, often in (kinds or {spec: layers}).items():
        yield from _of_heads(own, often)
    if spec.qknorm and spec.gain:
        yield from _normed(spec)
    if spec.mlp != "none":
        experts = sum(routed(spec, int(part)) for part in layer_parts(spec))
        if spec.ff:
            yield Discrete(f"S_{spec.ff}", "hidden units", layers - experts)
        if experts:
            if spec.groups:
                size = spec.experts // spec.groups
                group = f"S_{size} wr S_{spec.groups}"
                yield Discrete(group, "experts within their group, and groups", experts)
            else:
                yield Discrete(f"S_{spec.experts}", "experts", experts)
            yield Discrete(f"S_{spec.eff}", "hidden units of an expert", experts * spec.experts)
            if spec.shared:
                yield Discrete(f"S_{spec.shared}", "hidden units of the shared expert", experts)
        if spec.mlp == "bilinear":
            yield Discrete("2", "exchange of gate and up of a unit", layers * spec.ff)
        if spec.gated and spec.mlp in SCALES and spec.mlp != "reglu":
            routed_units = experts * (spec.experts * spec.eff + spec.shared)
            units = (layers - experts) * spec.ff + routed_units
            yield Discrete("2", "sign of a unit's up and down", units)
    if spec.pooler and spec.output != "hidden":
        yield Discrete(f"2^{spec.d} . S_{spec.d}", "signs and order of the pooled units", 1)
    yield from _stream(spec)


def _of_heads(spec: Transformer, layers: int) -> Iterator[Discrete]:
    """Of heads that are alike, and of what is gated entry by entry."""
    if spec.decay != "none":
        pass  # every head has a decay of its own
    elif spec.group > 1 and spec.kv > 1:
        group = f"S_{spec.group} wr S_{spec.kv}"
        yield Discrete(group, "query heads within their group, and groups", layers)
    elif spec.heads > 1:
        yield Discrete(f"S_{spec.heads}", "heads", layers)
    if spec.gate == "element" and spec.dv > 1:
        yield Discrete(f"S_{spec.dv}", "gated entries of a head", layers * spec.kv)


def _normed(spec: Transformer) -> Iterator[Discrete]:
    """Of normed queries and keys, by how many dimensions turn."""
    turned = Counter(spec.at(part).rotary_dim for part in layer_parts(spec))
    for rotary, often in turned.items():
        layers = often * spec.kv if spec.qknorm == "all" else often
        still = spec.head - rotary
        if still:
            yield Discrete(f"2^{still} . S_{still}", "signs and order of normed dimensions", layers)
        if rotary:
            yield Discrete(f"2^{rotary // 2}", "half turns of rotary planes", layers)


def _stream(spec: Transformer) -> Iterator[Discrete]:
    """Where gains fix the axes of the stream, their order and signs are left."""
    free = [place for place in stream_places(spec) if place.free]
    if spec.norm == "none" or not spec.gain or spec.output == "hidden" or not free:
        return
    fixed = spec.tied or spec.place != "pre"
    if not fixed:
        return
    times = 1 if spec.residual else len(free)
    if spec.norm == "rms":
        group, what = f"2^{spec.d} . S_{spec.d}", "signs and order of the stream's coordinates"
    else:
        group, what = f"2 . S_{spec.d}", "order of the stream's coordinates, and one common sign"
    yield Discrete(group, what, times)
