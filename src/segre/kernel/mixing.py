"""What can the heads of a stack's layer do together? Specials for stacks, each with its lemma.

Heads are named by their numbers in the layer, from 1, counted through all groups. The lemmas are in
docs/soundness.md, "Heads that mix".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from math import comb
from typing import Any

import numpy as np

from segre.attention.layer import Layer
from segre.attention.mechanism import Mechanism
from segre.kernel.document import RejectionError, items, keys, text, whole
from segre.kernel.forms import Facts, Matrix
from segre.kernel.graph import Place
from segre.kernel.linear import annihilator, matrix, rank
from segre.kernel.meter import afford, meter
from segre.kernel.spans import images
from segre.spec import Network

Tangent = dict[tuple[Place, int], Matrix]  # by tensor and number of the head in its group


@dataclass(frozen=True)
class Head:
    """One head: its group's part, its number in the group, and what it does."""

    part: str
    number: int
    one: Mechanism
    layer: Layer
    tokens: int

    @property
    def count(self) -> int:
        """The number of keys."""
        return (self.tokens - self.one.kernel) // self.one.stride + 1

    @property
    def alone(self) -> bool:
        """Every token sees only itself."""
        one = self.one
        return one.conv == "none" and (self.tokens == 1 or one.window == 0 or one.local == 1)

    @property
    def masked(self) -> bool:
        """A query may not see all keys."""
        one = self.one
        return one.causal or one.window is not None or one.local is not None

    @property
    def constant(self) -> str | None:
        """Which constant weights it has: of itself alone, or the same for all keys."""
        one = self.one
        if one.conv != "none" or one.gate != "none" or one.normalise in ("none", "centred"):
            return None
        if self.alone:
            return "alone"
        full = self.layer.a == 1 and one.weigh == "identity" and one.normalise == "both"
        return "uniform" if full and not self.masked else None

    @property
    def likeness(self) -> Any:
        """What bilinear heads with the same weights, as functions of scores, have in common."""
        one, t = self.one, self.tokens
        plain = one.weigh == "identity" and one.feature == one.unit == one.normalise == "none"
        if not plain or one.gate != "none" or one.conv != "none":
            return None
        if self.alone:
            return one.bias, "alone"
        if one.decay == "learned":
            return None
        window = None if one.window is None or one.window >= t - 1 else one.window
        local = None if one.local is None or one.local >= t else one.local
        decay = "none" if one.decay == Fraction(1) else one.decay
        return one.bias, one.causal, window, local, decay

    def rank(self, before: int) -> int:
        """A bound on the rank of what it writes, if tokens before it have this rank."""
        one = self.one
        if one.gate != "none":
            return self.tokens
        centred = one.normalise == "centred"
        bounds = [self.layer.inner, one.kernel * before, self.count - centred]
        if not self.masked and not centred and one.weigh != "exp":
            if one.weigh == "identity":
                bounds.append(self.layer.a)
            elif one.feature == "none":
                n = self.layer.a - (one.unit == "layer")
                fewer = one.unit != "none" and one.order > 1
                bounds.append(comb(n + one.order, one.order) - fewer * comb(n + one.order - 2, n))
        return min(bounds)


def heads_of(spec: Network, i: int) -> list[Head]:
    """The heads of layer i (from 0)."""
    layer = spec.layers[i]
    several = len(layer.groups) > 1
    return [
        Head(f"{i + 1}.{g + 1}" if several else f"{i + 1}", n, group.mechanism, layer, spec.t)
        for g, group in enumerate(layer.groups)
        for n in range(group.heads)
    ]


def parallel(spec: Network, i: int) -> bool:
    """Whether all tokens before layer i (from 0) are multiples of one."""
    tau = min(spec.layers[0].width_in, spec.t)
    for j in range(i):
        written = sum(head.rank(tau) for head in heads_of(spec, j))
        tau = min(spec.layers[j].width_out, spec.t, written)
    return tau == 1


def tangents(facts: Facts, spec: Network, entry: dict[str, Any], where: str) -> Matrix:
    """The generators of a special of stacks, as rows."""
    keys(entry, ("free", "name"), where, ("layer", "heads", "part"))
    name = text(entry["name"], f"{where}.name", tuple(_RULES))
    if "part" in entry:
        every = [head for i in range(len(spec.layers)) for head in heads_of(spec, i)]
        heads = [head for head in every if head.part == entry["part"]]
        i = int(heads[0].part.partition(".")[0]) - 1 if heads else 0
    else:
        i = whole(entry.get("layer"), f"{where}.layer", 1, len(spec.layers)) - 1
        every = heads_of(spec, i)
        given = items(entry.get("heads"), f"{where}.heads")
        numbers = {whole(n, f"{where}.heads", 1, len(every)) for n in given}
        heads = [every[n - 1] for n in sorted(numbers)]
    if not heads:
        raise RejectionError(f"{where}: no heads")
    together = _Together(facts, spec, i, heads)
    rows = []
    for tangent in _RULES[name](together):
        row = np.zeros(facts.graph.parameters, np.int64)
        for (place, number), part in tangent.items():
            tensor = facts.graph.tensors[place]
            size = tensor.size // tensor.shape[0]
            first = tensor.offset + number * size
            row[first : first + size] = (row[first : first + size] + part.reshape(-1)) % facts.prime
        rows.append(row)
        meter().require_bytes(16 * len(rows) * len(row))
    return np.array(rows, np.int64).reshape(-1, facts.graph.parameters)


class _Together:
    """Some heads of a layer, and their weights."""

    def __init__(self, facts: Facts, spec: Network, i: int, heads: Sequence[Head]) -> None:
        self.facts, self.spec, self.heads, self.prime = facts, spec, heads, facts.prime
        self.layer, self.i, self.times = spec.layers[i], i, facts.product

    def key(self, head: Head, name: str) -> tuple[Place, int]:
        """Where a tensor of a head is."""
        return (head.part, name), head.number

    def weight(self, head: Head, name: str) -> Matrix:
        """A tensor of a head."""
        tensor: Matrix = self.facts.weights[head.part, name][head.number]
        return tensor

    def alike(self) -> bool:
        """Whether keys and queries are one token, up to a number; the heads must be alike."""
        kinds = {head.likeness for head in self.heads}
        if len(kinds) > 1 or None in kinds:
            raise RejectionError("these heads are not alike")
        return self.heads[0].alone or parallel(self.spec, self.i)

    @property
    def biased(self) -> bool:
        """Whether keys or queries have biases."""
        return self.heads[0].one.bias != "none"

    def basis(self) -> Matrix:
        """B: a basis of a space in which all tokens before the layer lie."""
        graph, first = self.facts.graph, (self.heads[0].part, "W_Q")
        x = next(n.args[1] for n in graph.nodes if first == self.facts.place((*n.args, 0)[0]))
        span = images(self.facts).spans[x]
        if span.shift is not None:
            raise RejectionError("tokens do not lie in a linear space")
        basis: Matrix = span.basis
        return basis

    def scores(self, head: Head) -> Matrix:
        """A = W_K^T W_Q, each beside its bias."""
        return self.times(self.map(head, "K").T, self.map(head, "Q"))

    def map(self, head: Head, letter: str) -> Matrix:
        """W_K or W_Q, beside its bias if it has one."""
        W = self.weight(head, f"W_{letter}")
        if self.heads[0].one.bias in ("both", {"K": "key", "Q": "query"}[letter]):
            return np.concatenate([W, self.weight(head, f"b_{letter}")], 1)
        return W

    def extended(self, letter: str) -> Matrix:
        """B, with one more row and column where there is a bias."""
        B = self.basis()
        if self.map(self.heads[0], letter).shape[1] == B.shape[0]:
            return B
        result = np.zeros((B.shape[0] + 1, B.shape[1] + 1), np.int64)
        result[:-1, :-1], result[-1, -1] = B, 1
        return result

    def solved(self, A: Matrix, b: Matrix) -> Matrix:
        """A^-1 b, if A is regular here."""
        if rank(A, self.prime) < len(A):
            raise RejectionError("a matrix to be inverted is singular at this point")
        both = np.concatenate([A, (-b) % self.prime], 1)
        found = annihilator(both, self.prime)  # rows (x, y) with A x = b y
        left = found[:, : len(A)].T
        return self.times(left, self._inverse(found[:, len(A) :].T))

    def _inverse(self, M: Matrix) -> Matrix:
        inverse = matrix(M, self.prime).inv()
        return np.array([int(x) for x in inverse.entries()], np.int64).reshape(M.shape)

    def lifted(self, C: Matrix, B: Matrix, A: Matrix) -> Matrix:
        """Y with the rows of C, zero after the first r, with (C B)^T Y = B^T A."""
        r = B.shape[1]
        Y = np.zeros((len(C), A.shape[1]), np.int64)
        Y[:r] = self.solved(self.times(C, B)[:r].T, self.times(B.T, A))
        return Y

    # Each of these is a lemma.

    def pooled(self) -> Iterator[Tangent]:
        """Heads with the same constant weights: only the sum of their value maps matters."""
        kinds = {head.constant for head in self.heads}
        if len(kinds) > 1 or None in kinds:
            raise RejectionError("these heads have no constant weights in common")
        prime, first = self.prime, self.heads[0]
        if self.layer.dv is None:
            shape = self.weight(first, "W_V").shape
            for head in self.heads[1:]:
                for place in np.ndindex(shape):
                    unit = np.zeros(shape, np.int64)
                    unit[place] = 1
                    yield {self.key(head, "W_V"): unit, self.key(first, "W_V"): -unit % prime}
            return
        for g, h in product(self.heads, repeat=2):
            V, out = self.weight(h, "W_V"), self.weight(g, "W_O")
            for j, k in np.ndindex(self.layer.dv, self.layer.dv):
                moved, back = np.zeros_like(V), np.zeros_like(out)
                moved[j], back[:, k] = V[k], -out[:, j] % prime
                yield {self.key(g, "W_V"): moved, self.key(h, "W_O"): back}

    def skew(self) -> Iterator[Tangent]:
        """Scores of a token with itself: x^T W_Q^T M W_Q x = 0 for skew M."""
        single = parallel(self.spec, self.i)
        for head in self.heads:
            one = head.one
            plain = one.unit == one.feature == one.conv == one.bias == "none"
            if not plain or not (head.alone or single):
                raise RejectionError("scores are not those of single tokens, or have biases")
            for j, k in combinations_with_replacement(range(self.layer.a), 2):
                M = np.zeros((self.layer.a, self.layer.a), np.int64)
                M[j, k], M[k, j] = 1, -1
                if j < k:
                    for to, source in (("W_K", "W_Q"), ("W_Q", "W_K")):
                        yield {self.key(head, to): self.times(M, self.weight(head, source))}

    def sums(self) -> Iterator[Tangent]:
        """A token alone whose weight is a sum of exp(k + q): only keys plus queries matter."""
        for head in self.heads:
            one = head.one
            plain = one.weigh == "identity" and one.feature == "exp" and one.unit == "none"
            if not (plain and head.alone and one.normalise == "none"):
                raise RejectionError("weights are not sums of exp(k + q) of one token")
            for letter in "Wb" if one.bias == "both" else "W":
                shape = self.weight(head, f"{letter}_K").shape
                for place in np.ndindex(shape):
                    unit = np.zeros(shape, np.int64)
                    unit[place] = 1
                    both = self.key(head, f"{letter}_K"), self.key(head, f"{letter}_Q")
                    yield {both[0]: unit, both[1]: -unit % self.prime}

    def faded(self) -> Iterator[Tangent]:
        """exp(q - s) multiplies all weights by exp(-s), and what is written takes it back."""
        for head in self.heads:
            one = head.one
            plain = one.weigh == "identity" and one.feature == "exp" and one.unit == "none"
            if not plain or one.normalise != "none" or one.bias == "none":
                raise RejectionError("biases do not multiply all weights")
            bias = "b_K" if one.bias == "key" else "b_Q"
            tangent = {self.key(head, bias): np.full((self.layer.a, 1), self.prime - 1)}
            wide = one.kernel if one.conv == "full" else 1
            taps = ["W_V", *(f"W_V+{n}" for n in range(1, wide))]
            for name in taps if self.layer.dv is None else ["W_O"]:
                tangent[self.key(head, name)] = self.weight(head, name)
            yield tangent

    def mixed(self) -> Iterator[Tangent]:
        """One head's values are added to another's, and its scores make up for it."""
        joint, a = self.alike(), self.layer.a
        if self.layer.dv is not None or (self.biased and joint):
            raise RejectionError("no lemma for such heads that mix")
        B = self.basis()
        if joint and B.shape[1] <= 2 * a:
            yield from self._pairs(self._parallel)
        elif not joint and self.extended("K").shape[1] <= a:
            yield from self._pairs(lambda h, k: self._fixed(h, k, "K", "Q"))
        elif not joint and self.extended("Q").shape[1] <= a:
            yield from self._pairs(lambda h, k: self._fixed(h, k, "Q", "K"))

    def _pairs(self, undo: Callable[[Head, Head], Tangent]) -> Iterator[Tangent]:
        for h, k in permutations(self.heads, 2):
            yield {self.key(h, "W_V"): self.weight(k, "W_V"), **undo(h, k)}

    def _fixed(self, h: Head, k: Head, still: str, moved: str) -> Tangent:
        A = self.scores(h) if still == "K" else self.scores(h).T
        Y = self.lifted(self.map(k, still), self.extended(still), -A % self.prime)
        width = self.layer.width_in
        found = {self.key(k, f"W_{moved}"): Y[:, :width]}
        if Y.shape[1] > width:
            found[self.key(k, f"b_{moved}")] = Y[:, width:]
        return found

    def _parallel(self, h: Head, k: Head) -> Tangent:
        A, half = self.scores(h), (self.prime + 1) // 2
        both = np.concatenate([self.map(k, "K"), self.map(k, "Q")])
        Y = self.lifted(both, self.basis(), (A + A.T) * -half % self.prime)
        a = self.layer.a
        return {self.key(k, "W_Q"): Y[:a], self.key(k, "W_K"): Y[a:]}

    def some(self) -> Iterator[Tangent]:
        """The same for those combinations of heads that can be made up for."""
        if self.alike() or self.biased or self.layer.dv is not None:
            raise RejectionError("no lemma for such heads that mix")
        B, a, p = self.basis(), self.layer.a, self.prime
        r = B.shape[1]
        if r <= a:
            raise RejectionError("these heads mix freely")
        onto = np.zeros((r, len(B)), np.int64)
        onto[:, :r] = self.solved(B[:r], np.eye(r, dtype=np.int64))
        K, Q = ([self.times(self.weight(h, n), B) for h in self.heads] for n in ("W_K", "W_Q"))
        A = [self.times(k.T, q) for k, q in zip(K, Q, strict=True)]
        one = np.eye(a, dtype=np.int64)
        for k, head in enumerate(self.heads):
            others = [h for h in range(len(self.heads)) if h != k]
            left, right = self._full(K[k]), self._full(Q[k])
            seen = [self.times(left, A[h], right.T).reshape(-1) for h in others]
            into, out = self.solved(K[k][:, :a], one), self.solved(Q[k][:, :a], one)
            for c in self._full(np.array(seen).T):
                X = np.zeros((r, r), np.int64)
                for h, x in zip(others, c, strict=True):
                    X = (X - A[h] * int(x)) % p
                D = self.times(into.T, X[:a])
                F = self.times((X - self.times(K[k].T, D))[:, :a] % p, out)
                tangent = {
                    self.key(self.heads[h], "W_V"): self.weight(head, "W_V") * int(x) % p
                    for h, x in zip(others, c, strict=True)
                }
                tangent[self.key(head, "W_Q")] = self.times(D, onto)
                tangent[self.key(head, "W_K")] = self.times(F.T, onto)
                yield tangent

    def _full(self, M: Matrix) -> Matrix:
        """The kernel of a matrix, which must have full rank here."""
        if rank(M, self.prime) < min(M.shape):
            raise RejectionError("a matrix has no full rank at this point")
        return annihilator(M, self.prime)

    def filled(self) -> Iterator[Tangent]:
        """The heads enter through the coefficients of one map, as many as there can be."""
        joint = self.alike()
        if self.biased:
            raise RejectionError("no lemma for such heads that mix")
        B = self.basis()
        r, width = B.shape[1], self.layer.width_out
        names = ["W_K", "W_Q", "W_V"] + ["W_O"] * (self.layer.dv is not None)
        count = width * (comb(r + 2, 3) if joint else r * comb(r + 1, 2))
        shapes = [self.weight(self.heads[0], name).shape for name in names]
        sizes = [int(np.prod(shape)) for shape in shapes]
        if len(self.heads) * sum(sizes) <= count:
            return
        meter().require_bytes(16 * width * r**3 * (len(self.heads) * sum(sizes) + count))
        afford(width * r**3 * len(self.heads) * sum(sizes) * 1e-8)
        derivative = np.concatenate([self._derivative(h, B, joint) for h in self.heads], 1)
        if rank(derivative, self.prime) < count:
            return
        for vector in annihilator(derivative, self.prime):
            tangent, start = {}, 0
            for head, (name, size) in product(self.heads, zip(names, sizes, strict=True)):
                tangent[self.key(head, name)] = vector[start : start + size]
                start += size
            yield tangent

    def _derivative(self, head: Head, B: Matrix, joint: bool) -> Matrix:
        """Of all coefficients T[o, p, q, s] = W[o, p] A[q, s], made symmetric, by the weights."""
        K, Q, V = (self.times(self.weight(head, name), B) for name in ("W_K", "W_Q", "W_V"))
        out = None if self.layer.dv is None else self.weight(head, "W_O")
        W, A = V if out is None else self.times(out, V), self.times(K.T, Q)

        def by(subscripts: str, *factors: Matrix) -> Matrix:
            """T with one factor replaced by its derivative; the last two letters are a weight's."""
            result = factors[0]
            sides, last = subscripts.split("->")
            letters = sides.split(",")
            done = letters[0]
            for letter, factor in zip(letters[1:], factors[1:], strict=True):
                kept = "".join(
                    x
                    for x in dict.fromkeys(done + letter)
                    if x in last or x in "".join(letters[2:])
                )
                result = np.einsum(f"{done},{letter}->{kept}", result, factor) % self.prime
                done = kept
            turned: Matrix = np.einsum(f"{done}->{last}", result)
            return turned

        eye, unit = np.eye(len(W), dtype=np.int64), np.eye(self.layer.a, dtype=np.int64)
        parts = [
            by("op,bq,as,ai->opqsib", W, B, Q, unit),
            by("op,bs,aq,ai->opqsib", W, B, K, unit),
        ]
        if out is None:
            parts.append(by("qs,bp,oi->opqsib", A, B, eye))
        else:
            parts.append(by("qs,bp,oi->opqsib", A, B, out))
            parts.append(by("qs,bp,oi->opqsib", A, V, eye))
        flat = np.concatenate([part.reshape(*part.shape[:4], -1) for part in parts], -1)
        orders = list(permutations((1, 2, 3))) if joint else [(1, 2, 3), (2, 1, 3)]
        total = np.zeros_like(flat)
        for order in orders:
            total = (total + flat.transpose(0, *order, 4)) % self.prime
        r = B.shape[1]
        if joint:
            places = list(combinations_with_replacement(range(r), 3))
        else:
            pairs = combinations_with_replacement(range(r), 2)
            places = [(p, q, s) for (p, q), s in product(pairs, range(r))]
        some = np.array(places).T
        rows: Matrix = total[:, some[0], some[1], some[2]].reshape(-1, flat.shape[-1])
        return rows


_RULES: dict[str, Callable[[_Together], Iterator[Tangent]]] = {
    "pooled-heads": _Together.pooled,
    "skew-scores": _Together.skew,
    "key-query-sums": _Together.sums,
    "bias-against-values": _Together.faded,
    "mix-heads": _Together.mixed,
    "mix-some-heads": _Together.some,
    "filled": _Together.filled,
}
NAMES = tuple(_RULES)
