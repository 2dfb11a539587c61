"""What does a stack of attention layers compute? Its graph, with a mechanism for every head.

Heads with one mechanism form a group, and are kept together: the first axis of keys, queries and
scores is the head n. The part of a group is its layer ("2"), or "2.1", "2.2", ... if the layer has
several groups.

>>> graph = stack(Network.parse("softmax/d=4,3,2/a=2/heads=2/t=5"))
>>> graph.parameters, graph.shape(graph.output)
(92, (2, 5))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import factorial

from segre.attention.layer import Layer
from segre.attention.mechanism import Mechanism
from segre.kernel.functions import activation, divided, masked, standard
from segre.kernel.graph import Graph, Rate, Seen
from segre.slope import Slope
from segre.spec import Network

NO_EPS = Fraction(0)
_SUMS = {"none": (), "keys": (-2,), "both": (-1, -2), "centred": (-2,)}  # that divide weights


@dataclass(frozen=True)
class Heads:
    """The heads of one layer that have the same mechanism."""

    part: str
    count: int
    one: Mechanism
    layer: Layer
    tokens: int

    @property
    def seen(self) -> Seen:
        """Which keys a query sees; without filters there is a key for every token."""
        one = self.one
        keys = 1 + (self.tokens - one.kernel) // one.stride if one.conv != "none" else self.tokens
        return Seen(keys, self.tokens, one.causal, one.window, one.local)

    def tensors(self) -> Iterator[tuple[str, int, int]]:
        """Names, rows and columns, in the order of the vector of weights."""
        one, layer = self.one, self.layer
        d, inner = layer.width_in, layer.inner
        full = one.kernel if one.conv == "full" else 1
        filters = one.kernel if one.conv in ("depthwise", "shared") else 0
        apart = one.conv == "depthwise"
        for name, count, rows, columns in (
            ("W_K", full, layer.a, d),
            ("W_Q", 1, layer.a, d),
            ("W_V", full, inner, d),
            ("b_K", one.bias in ("key", "both"), layer.a, 1),
            ("b_Q", one.bias in ("query", "both"), layer.a, 1),
            ("c_K", filters, layer.a if apart else 1, 1),
            ("c_V", filters, inner if apart else 1, 1),
            ("decay", one.decay == "learned", 1, 1),
            ("W_G", one.gate != "none", inner if one.gate == "element" else 1, d),
            ("W_O", layer.dv is not None, layer.width_out, inner),
        ):
            for place in range(count):
                yield _tap(name, place), rows, columns


def groups(spec: Network, i: int) -> list[Heads]:
    """The groups of layer i (from 0)."""
    layer = spec.layers[i]
    several = len(layer.groups) > 1
    return [
        Heads(f"{i + 1}.{g}" if several else f"{i + 1}", one.heads, one.mechanism, layer, spec.t)
        for g, one in enumerate(layer.groups, start=1)
    ]


def stack(spec: Network) -> Graph:
    """The network of a spec."""
    graph = Graph((spec.layers[0].width_in, spec.t))
    x = graph.input
    for number, rank in enumerate(reached(spec)):
        graph.stage = number
        heads = [_Writer(graph, group, x) for group in groups(spec, number)]
        pairs = [one.keys_and_queries() for one in heads]  # all roots come before all exponentials
        symmetric = rank == 1 and spec.plain
        written = [
            one.written(*pair, symmetric=symmetric) for one, pair in zip(heads, pairs, strict=True)
        ]
        x = graph.sum(written)
    graph.output = x
    return graph


def reached(spec: Network) -> Iterator[int]:
    """The rho of section 6 for a plain stack: the dimension of what tokens span."""
    rank = spec.layers[0].width_in
    silent = spec.plain and spec.score == "softmax" and spec.t == 1
    for layer in spec.layers:
        yield rank
        alike = layer.heads if silent else 1  # heads that write what one wider head would
        through = rank if layer.dv is None else min(rank, alike * layer.dv)
        rank = min(layer.width_out, through * layer.heads // alike)


class _Writer:
    """The heads of a group that are being written as a graph."""

    def __init__(self, graph: Graph, group: Heads, x: int) -> None:
        self.graph, self.group, self.one, self.x = graph, group, group.one, x
        self.weights = {
            name: graph.weight(group.part, name, (group.count, rows, columns))
            for name, rows, columns in group.tensors()
        }

    # Keys, queries and values.

    def keys_and_queries(self) -> tuple[int, int]:
        """Keys and queries up to their norm."""
        keys = self._biased(self._compressed("K"), "b_K")
        queries = self._biased(self._mapped("W_Q", self.x), "b_Q")
        if self.one.unit == "none":
            return keys, queries
        layer = self.one.unit == "layer"
        keys, queries = (
            standard(self.graph, y, (-2,), NO_EPS, centred=layer, mean=layer)
            for y in (keys, queries)
        )
        return keys, queries

    def _mapped(self, name: str, x: int) -> int:
        return self.graph.contract("nad,dt->nat", self.weights[name], x)

    def _biased(self, y: int, name: str) -> int:
        return self.graph.add(y, self.weights[name]) if name in self.weights else y

    def _compressed(self, letter: str) -> int:
        """Keys before their bias, or values."""
        one, name = self.one, f"W_{letter}"
        if one.conv == "none":
            return self._mapped(name, self.x)
        parts = []
        for i in range(one.kernel):
            last = one.stride * (self.group.seen.keys - 1) + i
            part = self.graph.take(self.x, -1, range(i, last + 1, one.stride))
            if one.conv == "full":
                parts.append(self._mapped(_tap(name, i), part))
            else:
                factor = self.weights[_tap(f"c_{letter}", i)]
                parts.append(self.graph.mul(factor, self._mapped(name, part)))
        return self.graph.sum(parts)

    # What is written.

    def written(self, keys: int, queries: int, *, symmetric: bool) -> int:
        """What the heads write; of symmetric scores only half are arguments."""
        graph, one, seen = self.graph, self.one, self.group.seen
        keys, queries = (activation(graph, y, one.feature) for y in (keys, queries))
        scores = graph.contract("nam,nat->nmt", keys, queries)
        if one.weigh == "exp":
            graph.argument(scores, replace(seen, causal=True) if symmetric else seen)
        mixed = graph.contract("nvm,nmt->nvt", self._compressed("V"), self._pattern(scores, seen))
        if one.gate != "none":
            mixed = graph.mul(mixed, activation(graph, self._mapped("W_G", self.x), "sigmoid"))
        if "W_O" in self.weights:
            return graph.contract("ndv,nvt->dt", self.weights["W_O"], mixed)
        summed = graph.total(mixed, -3)
        return graph.contract("nvt,n->vt", summed, graph.constant("rational", Fraction(1), (1,)))

    def _pattern(self, scores: int, seen: Seen) -> int:
        """How much each query takes from each key."""
        graph, one, decay = self.graph, self.one, self.weights.get("decay")
        inputs = [scores] if decay is None else [scores, decay]
        sums, centred = _SUMS[one.normalise], one.normalise == "centred"
        params = {"weigh": one.weigh, "sums": sums, "centred": centred, "seen": seen}
        with graph.region("pattern", inputs, **params) as region:
            weights = self._faded(self._weighed(scores), decay, seen)
            for axis in sums:
                weights = divided(graph, weights, axis)
            if centred:
                weights = graph.shift(weights, Fraction(-1, seen.keys))
            region.output = weights
        return region.output

    def _weighed(self, z: int) -> int:
        graph, one = self.graph, self.one
        if one.weigh == "identity":
            return z
        if one.weigh == "exp":
            return graph.exp(z)
        terms, power = [graph.shift(z, Fraction(1))], z
        for i in range(2, one.order + 1):
            power = graph.mul(power, z)
            terms.append(graph.scale(power, Fraction(1, factorial(i))))
        return graph.sum(terms)

    def _faded(self, weights: int, decay: int | None, seen: Seen) -> int:
        """Weights, times their decay, of keys that are seen."""
        graph, given, shape = self.graph, self.one.decay, (seen.keys, seen.queries)
        if decay is not None:
            powers = [graph.constant("rational", Fraction(1), (self.group.count, 1, 1))]
            for _ in range(1, seen.queries):
                powers.append(graph.mul(powers[-1], decay))
            line = graph.join(-1, powers)
            ago = graph.constant("ago", seen, (seen.queries, *shape))
            return graph.mul(weights, graph.contract("nop,pmt->nmt", line, ago))
        if isinstance(given, Slope | Fraction):
            rate = Rate(given.exponent, given.factor) if isinstance(given, Slope) else given
            return graph.mul(weights, graph.constant("powers", ((rate,), seen), (1, *shape)))
        return masked(graph, weights, seen)


def _tap(name: str, place: int) -> str:
    """The name of a tensor at a place of a kernel: W_K, W_K+1, W_K+2, ..."""
    return f"{name}+{place}" if place else name
