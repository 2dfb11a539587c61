"""What can the heads of a stack's layer do together? Specials for stacks, each with its lemma.

Heads are named by their numbers in the layer, from 1, counted through all groups. The lemmas are in
docs/soundness.md, "Heads that mix".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, permutations, product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segre.kernel.document import RejectionError, items, keys, text, whole
from segre.kernel.forms import Facts, Matrix
from segre.kernel.graph import Place
from segre.kernel.linear import annihilator, left_inverse, rank
from segre.kernel.meter import afford, meter
from segre.kernel.spans import Images
from segre.kernel.stack import Heads, groups
from segre.spec import Network

Tangent = dict[tuple[Place, int], Matrix]  # by tensor, and number of the head in its group


@dataclass(frozen=True)
class Head(Heads):
    """One head of a group: what is true of its weights."""

    number: int  # in the group

    @cached_property
    def table(self) -> NDArray[np.bool_]:
        """Which keys (rows) a query (column) sees."""
        return self.seen.table()

    @property
    def alone(self) -> bool:
        """Every token sees only itself."""
        return self.one.conv == "none" and not (self.table & ~np.eye(self.tokens, dtype=bool)).any()

    @property
    def constant(self) -> str | None:
        """Which constant weights it has: of itself alone, or the same for all keys."""
        one = self.one
        if one.conv != "none" or one.gate != "none" or one.normalise in ("none", "centred"):
            return None
        if self.alone:
            return "alone"
        split = self.layer.a == 1 and one.weigh == "identity" and one.normalise == "both"
        return "uniform" if split and self.seen.all else None

    @property
    def plain(self) -> bool:
        """Weights are functions of the products of linear maps of tokens."""
        return self.one.unit == self.one.feature == self.one.conv == "none"

    @property
    def likeness(self) -> Any:
        """What bilinear heads with the same weights, as functions of scores, have in common."""
        one = self.one
        if not self.plain or one.weigh != "identity" or one.normalise != "none":
            return None
        if one.gate != "none" or (one.decay == "learned" and not self.alone):
            return None
        decay = "none" if self.alone or one.decay == Fraction(1) else one.decay
        return one.bias, decay, self.table.tobytes()

    @property
    def exponential(self) -> bool:
        """Weights are sums of exp(key + query), up to a mask and decays."""
        one = self.one
        plain = one.weigh == "identity" and one.unit == one.normalise == "none"
        return plain and one.feature == "exp"

    def rank(self, before: int) -> int:
        """A bound on the rank of what it writes, if tokens before it have this rank."""
        one = self.one
        if one.gate != "none":
            return self.tokens
        centred = one.normalise == "centred"
        bounds = [self.layer.inner, one.kernel * before, len(self.table) - centred]
        if self.table.all() and not centred and one.weigh != "exp":
            if one.weigh == "identity":
                bounds.append(self.layer.a)
            elif one.feature == "none":
                n = self.layer.a - (one.unit == "layer")
                fewer = one.unit != "none" and one.order > 1
                bounds.append(comb(n + one.order, one.order) - fewer * comb(n + one.order - 2, n))
        return min(bounds)


def heads_of(spec: Network, i: int) -> list[Head]:
    """The heads of layer i (from 0)."""
    return [Head(**vars(one), number=n) for one in groups(spec, i) for n in range(one.count)]


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
        every = [(head, i) for i in range(spec.depth) for head in heads_of(spec, i)]
        found = [(head, i) for head, i in every if head.part == entry["part"]]
        heads, i = [head for head, _ in found], found[0][1] if found else 0
    else:
        i = whole(entry.get("layer"), f"{where}.layer", 1, spec.depth) - 1
        each = heads_of(spec, i)
        where = f"{where}.heads"
        numbers = {whole(n, where, 1, len(each)) for n in items(entry.get("heads"), where)}
        heads = [each[n - 1] for n in sorted(numbers)]
    if not heads:
        raise RejectionError(f"{where}: no heads")
    rows: list[Matrix] = []
    for tangent in _RULES[name](_Together(facts, spec, i, heads)):
        rows.append(facts.row(tangent))
        meter().require_bytes(16 * len(rows) * facts.graph.parameters)
    return np.array(rows, np.int64).reshape(-1, facts.graph.parameters)


class _Together:
    """Some heads of a layer, and their weights."""

    def __init__(self, facts: Facts, spec: Network, i: int, heads: list[Head]) -> None:
        self.facts, self.heads, self.prime = facts, heads, facts.prime
        self.layer, self.times = spec.layers[i], facts.product
        self.single = parallel(spec, i)

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
        return self.heads[0].alone or self.single

    def biased(self, letter: str = "KQ") -> bool:
        """Whether keys or queries have biases."""
        kinds = {"K": ("key", "both"), "Q": ("query", "both")}
        return any(self.heads[0].one.bias in kinds[x] for x in letter)

    def basis(self) -> Matrix:
        """B: a basis of a space in which all tokens before the layer lie."""
        first, *_ = self.facts.uses((self.heads[0].part, "W_Q"))
        span = Images.of(self.facts).spans[self.facts.graph.nodes[first].args[1]]
        if span.shift.shape[-1]:
            raise RejectionError("tokens do not lie in a linear space")
        basis: Matrix = span.basis
        return basis

    def units(self, head: Head, name: str, other: tuple[Place, int]) -> Iterator[Tangent]:
        """What is added to a tensor, entry by entry, is taken from another."""
        shape = self.weight(head, name).shape
        for place in np.ndindex(shape):
            unit = np.zeros(shape, np.int64)
            unit[place] = 1
            yield {self.key(head, name): unit, other: -unit}

    def free(self, blocks: Sequence[Matrix]) -> Iterator[list[Matrix]]:
        """What a matrix takes to zero, by its blocks of columns, if its rows are independent."""
        system = np.concatenate(blocks, 1) % self.prime
        if rank(system, self.prime) == len(system):
            ends = np.cumsum([block.shape[1] for block in blocks])[:-1]
            for vector in annihilator(system, self.prime):
                yield np.split(vector, ends)

    # Each of these is a lemma.

    def pooled(self) -> Iterator[Tangent]:
        """Heads with the same constant weights: only the sum of their value maps matters."""
        kinds = {head.constant for head in self.heads}
        if len(kinds) > 1 or None in kinds:
            raise RejectionError("these heads have no constant weights in common")
        if self.layer.dv is None:
            for head in self.heads[1:]:
                yield from self.units(head, "W_V", self.key(self.heads[0], "W_V"))
            return
        for g, h in product(self.heads, repeat=2):
            V, out = self.weight(h, "W_V"), self.weight(g, "W_O")
            for j, k in np.ndindex(self.layer.dv, self.layer.dv):
                moved, back = np.zeros_like(V), np.zeros_like(out)
                moved[j], back[:, k] = V[k], -out[:, j]
                yield {self.key(g, "W_V"): moved, self.key(h, "W_O"): back}

    def skew(self) -> Iterator[Tangent]:
        """Scores of a token with itself: x^T W_Q^T M W_Q x = 0 for skew M."""
        for head in self.heads:
            if not head.plain or head.one.bias != "none" or not (head.alone or self.single):
                raise RejectionError("scores are not those of single tokens, or have biases")
            for j, k in combinations(range(self.layer.a), 2):
                M = np.zeros((self.layer.a, self.layer.a), np.int64)
                M[j, k], M[k, j] = 1, -1
                for to, source in (("W_K", "W_Q"), ("W_Q", "W_K")):
                    yield {self.key(head, to): self.times(M, self.weight(head, source))}

    def sums(self) -> Iterator[Tangent]:
        """A token alone whose weight is a sum of exp(k + q): only keys plus queries matter."""
        for head in self.heads:
            if not (head.exponential and head.alone):
                raise RejectionError("weights are not sums of exp(k + q) of one token")
            for letter in "Wb" if head.one.bias == "both" else "W":
                yield from self.units(head, f"{letter}_K", self.key(head, f"{letter}_Q"))

    def faded(self) -> Iterator[Tangent]:
        """exp(q - s) multiplies all weights by exp(-s), and what is written takes it back."""
        for head in self.heads:
            one = head.one
            if not head.exponential or one.bias == "none":
                raise RejectionError("biases do not multiply all weights")
            bias = "b_K" if one.bias == "key" else "b_Q"
            tangent = {self.key(head, bias): np.full((self.layer.a, 1), -1)}
            wide = one.kernel if one.conv == "full" else 1
            taps = ["W_V", *(f"W_V+{n}" for n in range(1, wide))]
            for name in taps if self.layer.dv is None else ["W_O"]:
                tangent[self.key(head, name)] = self.weight(head, name)
            yield tangent

    def mixed(self) -> Iterator[Tangent]:
        """Values of other heads take those of head k, and its scores make up for them."""
        joint = self.alike()
        if self.layer.dv is not None or (self.biased() and joint):
            raise RejectionError("no lemma for such heads that mix")
        (K, keys), (Q, queries) = self._mapped("K"), self._mapped("Q")
        (a, r), s, width = K[0].shape, Q[0].shape[1], self.layer.width_in
        some = (np.arange(r)[:, None] <= np.arange(s)) if joint else np.ones((r, s), bool)
        meter().require_bytes(16 * r * s * (len(K) + a * (r + s)))
        for k, head in enumerate(self.heads):
            others = [n for n in range(len(self.heads)) if n != k]
            blocks = [
                *(self.times(K[n].T, Q[n])[None] for n in others),  # A_h
                np.einsum("iq,st->isqt", K[k], np.eye(s, dtype=np.int64)),  # by W_Q
                np.einsum("qr,it->iqrt", np.eye(r, dtype=np.int64), Q[k]),  # by W_K
            ]
            flat = [part.reshape(-1, r, s) for part in blocks]
            both = [part + part.swapaxes(1, 2) if joint else part for part in flat]
            for *c, dQ, dK in self.free([part[:, some].T for part in both]):
                tangent = {
                    self.key(self.heads[n], "W_V"): self.weight(head, "W_V") * x % self.prime
                    for n, x in zip(others, c, strict=True)
                }
                for letter, moves, onto in (("Q", dQ, queries), ("K", dK, keys)):
                    change = self.times(moves.reshape(a, -1), onto)
                    tangent[self.key(head, f"W_{letter}")] = change[:, :width]
                    if change.shape[1] > width:
                        tangent[self.key(head, f"b_{letter}")] = change[:, width:]
                yield tangent

    def _mapped(self, letter: str) -> tuple[list[Matrix], Matrix]:
        """Keys or queries of a basis of tokens (beside their bias), and coordinates of tokens."""
        basis = self.basis()
        maps = [self.weight(head, f"W_{letter}") for head in self.heads]
        if self.biased(letter):
            size, count = basis.shape
            basis = np.pad(basis, (0, 1))
            basis[size, count] = 1
            biases = (self.weight(head, f"b_{letter}") for head in self.heads)
            maps = [np.concatenate(both, 1) for both in zip(maps, biases, strict=True)]
        return [self.times(W, basis) for W in maps], left_inverse(basis, self.prime)

    def filled(self) -> Iterator[Tangent]:
        """The heads enter through the coefficients of one map, as many as there can be."""
        joint = self.alike()
        if self.biased():
            raise RejectionError("no lemma for such heads that mix")
        B = self.basis()
        r, width = B.shape[1], self.layer.width_out
        names = ["W_K", "W_Q", "W_V"] + ["W_O"] * (self.layer.dv is not None)
        count = width * (comb(r + 2, 3) if joint else r * comb(r + 1, 2))
        weights = len(self.heads) * sum(self.weight(self.heads[0], name).size for name in names)
        if weights <= count:
            return
        meter().require_bytes(16 * width * r**3 * (weights + count))
        afford(width * r**3 * weights * 1e-8)
        blocks = [block for head in self.heads for block in self._derivative(head, B, joint)]
        for found in self.free(blocks):
            places = (self.key(head, name) for head in self.heads for name in names)
            yield dict(zip(places, found, strict=True))

    def _derivative(self, head: Head, B: Matrix, joint: bool) -> Iterator[Matrix]:
        """Of all coefficients T[o, p, q, s] = W[o, p] A[q, s], made symmetric, by each tensor."""
        K, Q, V = (self.times(self.weight(head, name), B) for name in ("W_K", "W_Q", "W_V"))
        eye, r, p = np.eye(self.layer.width_out, dtype=np.int64), B.shape[1], self.prime
        out = eye if self.layer.dv is None else self.weight(head, "W_O")
        W, A = self.times(out, V), self.times(K.T, Q)
        parts = [
            np.einsum("op,iqsb->opqsib", W, np.einsum("bq,is->iqsb", B, Q) % p),  # by W_K
            np.einsum("op,iqsb->opqsib", W, np.einsum("iq,bs->iqsb", K, B) % p),  # by W_Q
            np.einsum("opib,qs->opqsib", np.einsum("oi,bp->opib", out, B) % p, A),  # by W_V
        ]
        if self.layer.dv is not None:
            parts.append(np.einsum("opib,qs->opqsib", np.einsum("oi,bp->opib", eye, V) % p, A))
        orders = list(permutations((1, 2, 3))) if joint else [(1, 2, 3), (2, 1, 3)]
        first, second, third = np.indices((r, r, r)).reshape(3, -1)
        kept = (first <= second) & ((second <= third) | (not joint))
        for part in parts:
            flat = part.reshape(*part.shape[:4], -1) % p
            total = np.sum([flat.transpose(0, *order, 4) for order in orders], 0) % p
            rows = total.reshape(len(flat), r**3, -1)[:, kept]
            yield rows.reshape(-1, flat.shape[-1])


_RULES: dict[str, Callable[[_Together], Iterator[Tangent]]] = {
    "pooled-heads": _Together.pooled,
    "skew-scores": _Together.skew,
    "key-query-sums": _Together.sums,
    "bias-against-values": _Together.faded,
    "mix-heads": _Together.mixed,
    "mix-some-heads": _Together.mixed,
    "filled": _Together.filled,
}
