"""Which inequalities does a theorem ask for, with which numbers? Section 4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from segre.polynomial.spec import Polynomial
from segre.referee.by_theorem.designs import Spec
from segre.referee.by_theorem.parameters import parameters
from segre.spec import Network
from segre.transformer.spec import Transformer


class Hypothesis(NamedTuple):
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
    if isinstance(spec, Polynomial):
        return [_at_least(f"{theorem}1", spec.degree, 2 if theorem == "V" else 1)]
    if isinstance(spec, Network):
        return list(_of_stack(spec, theorem))
    learned = theorem in ("D2", "F1", "F2")
    return list(_learned(spec, theorem) if learned else _rotary(spec, theorem))


def _at_least(name: str, left: int, right: int) -> Hypothesis:
    return Hypothesis(name, left, ">=", right)


def _more(name: str, left: int, right: int) -> Hypothesis:
    return Hypothesis(name, left, ">", right)


def _up(number: int, divisor: int) -> int:
    """A quotient, rounded up."""
    return -(-number // divisor)


def _positive(number: int) -> int:
    return max(number, 0)


def _of_stack(net: Network, theorem: str) -> Iterator[Hypothesis]:
    d, widths, heads = net.widths[0], net.widths, list(net.layers)
    if theorem == "A":
        yield _at_least("A1", net.t, 2)
    elif theorem == "A'":
        yield _at_least("A'1", net.t, 2)
        yield _at_least("A'2", min(widths), d)
        yield _at_least("A'3", d, max(widths))
        yield _at_least("A'4", d, max(head.a for head in heads))
        yield _at_least("A'5", d, max(d if head.dv is None else head.dv for head in heads))
        through = min(d if head.dv is None else head.heads * head.dv for head in heads)
        yield _at_least("A'6", through, d)
    elif theorem == "L1":
        yield _at_least("L1.1", net.t, 2)
    else:
        ranks = [min(head.a, d) for head in heads]
        least, most = min(ranks), max(ranks)
        yield _at_least("L.1", net.t, 2 if least == d else least + 1)
        yield _at_least("L.2", min(widths), d)
        yield _at_least("L.3", least, min(2, d))
        yield _at_least("L.4", least, most)


def _rotary(spec: Transformer, X: str) -> Iterator[Hypothesis]:
    """Theorems B, C, D1 and E."""
    d, H, a, v, V = spec.d, spec.heads, spec.head, spec.dv, spec.vocab
    t = spec.t if X == "B" else min([spec.t, *(w for w in spec.window if w != 0)])
    yield _at_least(f"{X}.d", d, 3)
    yield _at_least(f"{X}.a", d, a)
    yield _at_least(f"{X}.v", d, v)
    yield _at_least(f"{X}.t", t, a + 1)
    o = min(d, H * v)
    if X in ("C", "D1"):
        yield _at_least(f"{X}.heads", H * v, d)
    if X == "E":
        yield _at_least("E.o", o, 2)
        yield _at_least("E.squares", o * (o + 1) // 2, d)
        yield _at_least("E.f", spec.ff, d)
    if X != "B":
        yield _at_least(f"{X}.V", V, 2 * d + 2)
    yield _at_least(f"{X}.rope", spec.rotary, a)
    yield from _angle(spec, X)
    if X != "B" or spec.qknorm:
        yield _at_least(f"{X}.eps", spec.eps.numerator, 1)
    if X == "E":
        yield _at_least("E.cap", spec.cap.numerator, 1)
        yield _at_least("E.logitcap", spec.logitcap.numerator, 1)
    if X == "B":
        return
    first = _first_layer(spec, X)
    contexts = _contexts_around(spec, t, o) if X == "E" else _contexts(spec, t)
    yield _more(f"{X}.contexts", contexts, parameters(spec))
    yield _more(f"{X}.first", _positive(V - d - 1) * _positive(V - 2 * d - 3), first)
    if X == "C" and spec.qknorm:
        yield from _normed_scores(spec, first)


def _angle(spec: Transformer, X: str) -> Iterator[Hypothesis]:
    """A rescaling that leaves the quickest plane as it is: 2 pi is less than 7."""
    how = spec.rescaling
    if how is not None and how.kind == "llama3":
        (p, q), (r, s) = how.length.as_integer_ratio(), how.high.as_integer_ratio()
        yield _at_least(f"{X}.angle", p * s, 7 * r * q)


def _first_layer(spec: Transformer, X: str) -> int:
    """n_1 of theorems C, D1 and E."""
    d, H, kv, a, v = spec.d, spec.heads, spec.kv, spec.head, spec.dv
    total = d * (H * a + kv * a + kv * v + H * v) + 2 * d
    if X == "D1":
        total += H * a + kv * a + kv * v
    if spec.qknorm:
        total += 2 * a
    return total + (d if X == "E" else 0)


def _forms(spec: Transformer) -> int:
    """N: linear forms in a token, and the quadratic ones of a normed query or key."""
    return spec.d + spec.head * (spec.head + 1) // 2 + spec.head


def _contexts(spec: Transformer, t: int) -> int:
    """The contexts of theorems C and D1; the right side is the number of parameters."""
    V, m = spec.vocab, max(spec.head + 1, _up(spec.d, spec.heads))
    N_w = (_forms(spec) if spec.qknorm else spec.d) + 1
    n = (t - 1) // m
    many = (n - 1) * (V - N_w) * (V - m - 1) if n > 1 and N_w < V else 0
    u = min((V - N_w) // 2, V - 1 - m)
    few = n * u * (V - u - N_w) if u > 0 else 0
    return max(many, few, 0)


def _contexts_around(spec: Transformer, t: int, o: int) -> int:
    """The contexts of theorem E, with norms around each sub-layer."""
    d, V, m = spec.d, spec.vocab, max(spec.head + 1, _up(o, spec.heads))
    n, N_u = (t - 1) // m, d + (d - o) * (d - o + 1) // 2
    return _positive(n - 1) * _positive(V - d - 1) * _positive(V - m - N_u)


def _normed_scores(spec: Transformer, first: int) -> Iterator[Hypothesis]:
    a, V, N = spec.head, spec.vocab, _forms(spec)
    c = V - 1 - a - a * first // (V - a) if a < V else -1 - a
    yield _at_least("C.keys", c, N)
    rest = c - 1 - a
    yield _at_least("C.queries", V - 1 - _up(first, rest) if rest > 0 else 0, N)


def _learned(spec: Transformer, X: str) -> Iterator[Hypothesis]:
    """Theorems D2, F1 and F2."""
    d, H, kv, a, v, V, t = spec.d, spec.heads, spec.kv, spec.head, spec.dv, spec.vocab, spec.t
    if X != "D2":
        yield _at_least(f"{X}.layers", spec.layers, 2)
    yield _at_least(f"{X}.d", d, 4)
    yield _at_least(f"{X}.a", d - 1, a)
    yield _at_least(f"{X}.v", d - 1, v)
    yield _at_least(f"{X}.heads", H * v, d - 1)
    yield _at_least(f"{X}.V", V, 2 * d + 2)
    yield _at_least(f"{X}.t", t, 2)
    yield _at_least(f"{X}.positions", t, spec.positions)
    yield _at_least(f"{X}.eps", spec.eps.numerator, 1)
    m = _up(d - 1, H)
    contexts = (t - 1) // max(m, 1) * _positive(V - d) * _positive(V - m - 1)
    yield _more(f"{X}.contexts", contexts, parameters(spec))
    first = (d + 1) * (H * a + kv * a + kv * v) + d * H * v + 2 * d
    yield _more(f"{X}.first", _positive(V - d - 1) * _positive(V - 2 * d - 3), first)
