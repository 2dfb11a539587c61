"""How many symmetries has a design that a theorem covers? Section 5."""

from __future__ import annotations

from collections.abc import Iterator

from segre.polynomial.spec import Polynomial
from segre.referee.by_theorem.designs import GATED, Spec
from segre.referee.by_theorem.parameters import parameters
from segre.referee.polynomial.counts import powers
from segre.spec import Network
from segre.transformer.spec import Transformer

Counted = tuple[str, int]

_KEPT = "changes that keep every M_i and L"
_SCALES = "scales of scores against values"


def symmetries(spec: Spec, theorem: str) -> list[Counted]:
    """Names and dimensions, in their order, without those of dimension 0."""
    if isinstance(spec, Polynomial):
        counted = _of_polynomial(spec, theorem)
    elif isinstance(spec, Network):
        counted = _of_stack(spec, theorem)
    elif theorem in ("D2", "F1", "F2"):
        counted = _learned(spec, theorem)
    else:
        counted = _rotary(spec, theorem)
    return [(name, dimension) for name, dimension in counted if dimension != 0]


def _of_polynomial(spec: Polynomial, theorem: str) -> Iterator[Counted]:
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


def _of_stack(net: Network, theorem: str) -> Iterator[Counted]:
    d, last, heads = net.widths[0], net.widths[-1], list(net.layers)
    if theorem == "A":
        yield _KEPT, parameters(net) - _kept_by_softmax(net)
    elif theorem == "A'":
        yield "bases of queries and keys", sum(head.heads * head.a**2 for head in heads)
        values = sum(head.heads * head.dv**2 for head in heads if head.dv is not None)
        yield "bases of values", values
        yield "bases of tokens between layers", (len(heads) - 1) * d**2
    elif theorem == "L1":
        a = heads[0].a
        p = min(a, d)
        yield _KEPT, 2 * a * d - p * (2 * d - p)
        yield _SCALES, 1
    else:
        ranks = [min(head.a, d) for head in heads]
        yield _KEPT, parameters(net) - d * last - sum(p * (2 * d - p) for p in ranks)
        yield _SCALES, len(heads)


def _kept_by_softmax(net: Network) -> int:
    """The dimension of all M_i and L of theorem A."""
    r = [net.widths[0]]
    for width in net.widths[1:]:
        r.append(min(r[-1], width))
    depth = len(net.layers)
    # Layer i, from 1, has the head of rank p[i]; there is none before it.
    p = [0, *(min(net.layers[i - 1].a, r[i - 1]) for i in range(1, depth + 1))]
    s = [0] * depth + [r[depth]]
    for i in range(depth - 1, 0, -1):
        s[i] = min(r[i], s[i + 1] + 2 * p[i + 1])
    total = r[depth] * net.widths[-1]
    for i in range(1, depth + 1):
        total += s[i] * (r[i - 1] - r[i]) + p[i] * (2 * r[i - 1] - p[i])
    return total


def _rotary(spec: Transformer, theorem: str) -> Iterator[Counted]:
    """Theorems B, C, D1 and E."""
    L, d, kv, a, v = spec.layers, spec.d, spec.kv, spec.head, spec.dv
    yield "queries and keys", L * a // 2 if spec.qknorm else L * kv * a
    yield "values and outputs", L * kv * v**2
    yield "gains of the norms", 2 * L * d
    yield "gated units", _gated_units(spec)
    if theorem == "D1":
        yield "biases of values", L * max(kv * v - d, 0)
    if theorem in ("C", "D1") and not spec.tied:
        yield "gain of the last norm", d
        yield "rotations of the stream", d * (d - 1) // 2
        if spec.output == "softmax":
            yield "shifts of all logits", d


def _learned(spec: Transformer, theorem: str) -> Iterator[Counted]:
    """Theorems D2, F1 and F2."""
    L, d, H, kv, a, v, f = (
        *(spec.layers, spec.d, spec.heads, spec.kv),
        *(spec.head, spec.dv, spec.ff),
    )
    gate = 1 if spec.mlp in GATED else 0
    decoder = theorem == "D2"
    yield "queries and keys", L * kv * a**2
    yield "values and outputs", L * kv * v**2
    yield "biases of keys and values", L * kv * (a + v)
    yield "gains and biases of the norms", (4 if decoder else 2) * L * d
    yield "what is read along the mean", L * ((H + kv) * a + kv * v + f * (1 + gate))
    yield "what is written along the mean", L * (H * v + f + 2)
    yield "gated units", _gated_units(spec)
    if decoder:
        yield "means of positions", spec.positions
        yield "shifts of all logits", d
        return
    yield "constants between the tables", 2 * d if spec.types else d
    yield "means of positions and types", spec.positions + spec.types
    if theorem == "F1":
        yield "the head and its norm", 4 * d if spec.types else 4 * d + 1
        return
    yield "means of tokens", spec.vocab - (2 if spec.types else 1)
    if spec.pooler:
        yield "the pooler along the mean", d


def _gated_units(spec: Transformer) -> int:
    return spec.layers * spec.ff if spec.mlp in GATED else 0
