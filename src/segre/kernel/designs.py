"""What does a theorem ask of a design, and what does it count? Integers that follow from the spec.

Section 9 of docs/certificate.md has the tables. The number of layers is a factor, so that a large
model takes no longer than a small one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from segre.kernel.counting import closed_form, powers
from segre.kernel.document import Spec
from segre.kernel.graph import Graph, Shape
from segre.kernel.stack import groups
from segre.kernel.transformer import transformer
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.transformer.spec import Transformer

GATED = ("swiglu", "geglu", "geglu-tanh")
PLAIN = ("silu", "gelu", "gelu-tanh")
_SHORT = ("A", "A'", "V", "M", "K")  # hypotheses are A1, not A.1
_MORE = ("contexts", "first")  # hypotheses in which left is more than right
_KEPT = "changes that keep every M_i and L"


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """`left relation right`, by name."""

    name: str
    left: int
    relation: str
    right: int

    @property
    def holds(self) -> bool:
        """Whether it is true."""
        return self.left > self.right if self.relation == ">" else self.left >= self.right

    def __str__(self) -> str:
        return f"{self.name} ({self.left} {self.relation} {self.right})"


def hypotheses(spec: Spec, theorem: str) -> list[Hypothesis]:
    """All hypotheses of a theorem that covers the design, in their order, true or not."""
    (asked, _), point = _THEOREMS[theorem], "" if theorem in _SHORT else "."
    return [
        Hypothesis(theorem + point + name, left, ">" if name in _MORE else ">=", right)
        for name, left, right in asked(spec, theorem)
    ]


_Asked = Iterator[tuple[str, int, int]]  # hypotheses without the name of their theorem


def _of_powers(spec: Polynomial, theorem: str) -> _Asked:
    yield "1", spec.degree, 2 if theorem == "V" else 1


def _of_stack(net: Network, theorem: str) -> _Asked:
    d, heads = net.widths[0], net.layers
    if theorem in ("A", "A'"):
        yield "1", net.t, 2
    if theorem == "A'":
        yield "2", min(net.widths), d
        yield "3", d, max(net.widths)
        yield "4", d, max(head.a for head in heads)
        yield "5", d, max(d if head.dv is None else head.dv for head in heads)
        yield "6", min(d if head.dv is None else head.heads * head.dv for head in heads), d
    if theorem == "L1":
        yield "1", net.t, 2
    if theorem == "L":
        ranks = [min(head.a, d) for head in heads]
        yield "1", net.t, 2 if min(ranks) == d else min(ranks) + 1
        yield "2", min(net.widths), d
        yield "3", min(ranks), min(2, d)
        yield "4", min(ranks), max(ranks)


def _rotary(spec: Transformer, theorem: str) -> _Asked:
    """Theorems B, C, D1 and E."""
    d, H, a, v, V = spec.d, spec.heads, spec.head, spec.dv, spec.vocab
    t = spec.t if theorem == "B" else min([spec.t, *(w for w in spec.window if w != 0)])
    o = min(d, H * v)
    yield "d", d, 3
    yield "a", d, a
    yield "v", d, v
    yield "t", t, a + 1
    if theorem in ("C", "D1"):
        yield "heads", H * v, d
    if theorem == "E":
        yield "o", o, 2
        yield "squares", o * (o + 1) // 2, d
        yield "f", spec.ff, d
    if theorem != "B":
        yield "V", V, 2 * d + 2
    yield "rope", spec.rotary, a
    if (how := spec.rescaling) is not None and how.kind == "llama3":
        (p, q), (r, s) = how.length.as_integer_ratio(), how.high.as_integer_ratio()
        yield "angle", p * s, 7 * r * q  # the quickest plane turns as it did: 2 pi < 7
    if theorem != "B" or spec.qknorm:
        yield "eps", spec.eps.numerator, 1
    if theorem == "E":
        yield "cap", spec.cap.numerator, 1
        yield "logitcap", spec.logitcap.numerator, 1
    if theorem != "B":
        first = _first_layer(spec, theorem)
        contexts = _contexts_around(spec, t, o) if theorem == "E" else _contexts(spec, t)
        yield "contexts", contexts, parameters(spec)
        yield "first", _up_from_0(V - d - 1) * _up_from_0(V - 2 * d - 3), first
        if theorem == "C" and spec.qknorm:
            N = _forms(spec)
            c = V - 1 - a - (a * first // (V - a) if a < V else V)
            rest = c - 1 - a
            yield "keys", c, N
            yield "queries", V - 1 - _quotient_up(first, rest) if rest > 0 else 0, N


def _first_layer(spec: Transformer, theorem: str) -> int:
    """n_1 of theorems C, D1 and E."""
    d, reads = spec.d, spec.heads * spec.head + spec.kv * (spec.head + spec.dv)
    total = d * (reads + spec.heads * spec.dv) + 2 * d
    total += reads if theorem == "D1" else 0
    total += 2 * spec.head if spec.qknorm else 0
    return total + (d if theorem == "E" else 0)


def _forms(spec: Transformer) -> int:
    """N: linear forms in a token, and the quadratic ones of a normed query or key."""
    return spec.d + spec.head * (spec.head + 1) // 2 + spec.head


def _contexts(spec: Transformer, t: int) -> int:
    """The contexts of theorems C and D1."""
    V, m = spec.vocab, max(spec.head + 1, _quotient_up(spec.d, spec.heads))
    N_w = (_forms(spec) if spec.qknorm else spec.d) + 1
    n, u = (t - 1) // m, min((V - N_w) // 2, V - 1 - m)
    many = (n - 1) * (V - N_w) * (V - m - 1) if n > 1 and N_w < V else 0
    few = n * u * (V - u - N_w) if u > 0 else 0
    return max(many, few, 0)


def _contexts_around(spec: Transformer, t: int, o: int) -> int:
    """The contexts of theorem E, with norms around each sub-layer."""
    d, V, m = spec.d, spec.vocab, max(spec.head + 1, _quotient_up(o, spec.heads))
    n, N_u = (t - 1) // m, d + (d - o) * (d - o + 1) // 2
    return _up_from_0(n - 1) * _up_from_0(V - d - 1) * _up_from_0(V - m - N_u)


def _learned(spec: Transformer, theorem: str) -> _Asked:
    """Theorems D2, F1 and F2."""
    d, H, kv, a, v, V, t = spec.d, spec.heads, spec.kv, spec.head, spec.dv, spec.vocab, spec.t
    if theorem != "D2":
        yield "layers", spec.layers, 2
    yield "d", d, 4
    yield "a", d - 1, a
    yield "v", d - 1, v
    yield "heads", H * v, d - 1
    yield "V", V, 2 * d + 2
    yield "t", t, 2
    yield "positions", t, spec.positions
    yield "eps", spec.eps.numerator, 1
    m = _quotient_up(d - 1, H)
    contexts = (t - 1) // max(m, 1) * _up_from_0(V - d) * _up_from_0(V - m - 1)
    yield "contexts", contexts, parameters(spec)
    first = (d + 1) * (H * a + kv * a + kv * v) + d * H * v + 2 * d
    yield "first", _up_from_0(V - d - 1) * _up_from_0(V - 2 * d - 3), first


def _quotient_up(number: int, divisor: int) -> int:
    return -(-number // divisor)


def _up_from_0(number: int) -> int:
    return max(number, 0)


# The number of weights.


class _Sized(Graph):
    """A graph of any size, with which nothing is computed: its weights are counted."""

    def require(self, shape: Shape) -> None:
        """Refuse nothing: no value is computed, so none is too large."""

    def take(self, a: int, axis: int, places: Sequence[int]) -> int:
        """One value with so many places along the axis; nothing is computed."""
        shape = list(self.shape(a))
        shape[axis] = len(places)
        return self._write("take", (a,), tuple(shape))


def parameters(spec: Spec) -> int:
    """The number P of weights of a covered design."""
    return _WEIGHTS[type(spec)](spec)


def _in_layers(spec: Transformer) -> int:
    """All layers of a transformer are alike; rotations, windows and tokens have no weights."""
    pos = spec.pos if spec.pos == "learned" else "none"
    less = replace(spec, pos=pos, window=(), t=1)
    first, both = (
        transformer(replace(less, layers=layers), _Sized).parameters for layers in (1, 2)
    )
    return first + (spec.layers - 1) * (both - first)


def _in_heads(net: Network) -> int:
    every = (group for i in range(net.depth) for group in groups(net, i))
    return sum(group.count * r * c for group in every for _, r, c in group.tensors())


def _in_maps(spec: Polynomial) -> int:
    filters = [layer.kernel for layer in spec.convolutions]
    weights = filters or [before * after for before, after in pairwise(spec.widths)]
    return sum(weights) + spec.bias * sum(layer.units for layer in spec.layers)


_WEIGHTS: dict[type[Spec], Callable[[Any], int]] = {
    Transformer: _in_layers,
    Network: _in_heads,
    Polynomial: _in_maps,
}


# The symmetries.


def symmetries(spec: Spec, theorem: str) -> dict[str, int]:
    """Names and dimensions, in their order, without those of dimension 0."""
    _, counted = _THEOREMS[theorem]
    return {name: dimension for name, dimension in counted(spec, theorem) if dimension}


_Counted = Iterator[tuple[str, int]]


def _of_polynomial(spec: Polynomial, theorem: str) -> _Counted:
    depth, widths = len(spec.layers), spec.widths
    if theorem == "V":
        n, m, _ = widths
        yield "scales of hidden units", m
        yield "weights with the same sum of powers", m * n - powers(n, spec.degree, m)
    elif theorem == "M":
        rank = min(widths)
        maps = rank * (widths[0] + widths[-1] - rank) + (widths[-1] if spec.bias else 0)
        yield "factorisations of one linear map", parameters(spec) - maps
    else:
        yield "scales of filters", depth - 1
        yield "biases against later ones", depth - 1 if spec.bias and spec.degree == 1 else 0


def _of_heads(net: Network, theorem: str) -> _Counted:
    d, last, heads = net.widths[0], net.widths[-1], net.layers
    if theorem == "A":
        yield _KEPT, parameters(net) - closed_form(net)
    elif theorem == "A'":
        yield "bases of queries and keys", sum(head.heads * head.a**2 for head in heads)
        values = (head.heads * head.dv**2 for head in heads if head.dv is not None)
        yield "bases of values", sum(values)
        yield "bases of tokens between layers", (len(heads) - 1) * d**2
    else:
        kept = sum(p * (2 * d - p) for p in (min(head.a, d) for head in heads))
        yield _KEPT, parameters(net) - d * last - kept
        yield "scales of scores against values", len(heads)


def _of_norms(spec: Transformer, theorem: str) -> _Counted:
    """Theorems B, C, D1 and E."""
    L, d, kv, a, v = spec.layers, spec.d, spec.kv, spec.head, spec.dv
    yield "queries and keys", L * a // 2 if spec.qknorm else L * kv * a
    yield "values and outputs", L * kv * v**2
    yield "gains of the norms", 2 * L * d
    yield "gated units", L * spec.ff * (spec.mlp in GATED)
    if theorem == "D1":
        yield "biases of values", L * _up_from_0(kv * v - d)
    if theorem in ("C", "D1") and not spec.tied:
        yield "gain of the last norm", d
        yield "rotations of the stream", d * (d - 1) // 2
        yield "shifts of all logits", d if spec.output == "softmax" else 0


def _around_the_mean(spec: Transformer, theorem: str) -> _Counted:
    """Theorems D2, F1 and F2."""
    L, d, H, kv, a, v = spec.layers, spec.d, spec.heads, spec.kv, spec.head, spec.dv
    f, g, tables = spec.ff, (spec.mlp in GATED), 2 if spec.types else 1
    decoder = theorem == "D2"
    yield "queries and keys", L * kv * a**2
    yield "values and outputs", L * kv * v**2
    yield "biases of keys and values", L * kv * (a + v)
    yield "gains and biases of the norms", (4 if decoder else 2) * L * d
    yield "what is read along the mean", L * ((H + kv) * a + kv * v + f * (1 + g))
    yield "what is written along the mean", L * (H * v + f + 2)
    yield "gated units", L * f * g
    if decoder:
        yield "means of positions", spec.positions
        yield "shifts of all logits", d
        return
    yield "constants between the tables", tables * d
    yield "means of positions and types", spec.positions + spec.types
    if theorem == "F1":
        yield "the head and its norm", 4 * d + 2 - tables
        return
    yield "means of tokens", spec.vocab - tables
    yield "the pooler along the mean", d if spec.pooler else 0


# What a theorem asks, and what it counts.

_THEOREMS: dict[str, tuple[Callable[[Any, str], _Asked], Callable[[Any, str], _Counted]]] = {
    **dict.fromkeys(("A", "A'", "L1", "L"), (_of_stack, _of_heads)),
    **dict.fromkeys(("V", "M", "K"), (_of_powers, _of_polynomial)),
    **dict.fromkeys(("B", "C", "D1", "E"), (_rotary, _of_norms)),
    **dict.fromkeys(("D2", "F1", "F2"), (_learned, _around_the_mean)),
}
