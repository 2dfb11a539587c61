"""Which heads have the same weights as functions of their scores? Families 19 and 20."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

from flint import nmod_mat

from segre.referee.linear import above, annihilator, beside, select, top
from segre.referee.mixed.heads import Head
from segre.referee.mixed.point import Point
from segre.referee.pieces import inverse, lifted, stacked
from segre.referee.transformers.point import Tangent, together
from segre.referee.transformers.point import product as times
from segre.referee.transformers.tensors import Key


def alike(heads: list[Head]) -> list[list[Head]]:
    """The heads of a layer that family 19 is about, in classes."""
    classes: dict[object, list[Head]] = {}
    for head in heads:
        one = head.mechanism
        bare = head.bilinear and one.gate == one.conv == "none"
        if bare and (head.alone or one.decay != "learned"):
            classes.setdefault(_likeness(head), []).append(head)
    return list(classes.values())


def _likeness(head: Head) -> object:
    """What alike heads have in common."""
    one, t = head.mechanism, head.tokens
    if head.alone:
        return one.bias, "alone"
    window = None if one.window is None or one.window >= t - 1 else one.window
    local = None if one.local is None or one.local >= t else one.local
    decay = "none" if one.decay == Fraction(1) else one.decay
    return one.bias, one.causal, window, local, decay


@dataclass(frozen=True)
class Alike:
    """Heads that are alike, at a point; tokens before their layer are in the span of B."""

    point: Point
    heads: list[Head]
    B: nmod_mat

    @property
    def joint(self) -> bool:
        """Whether keys and queries are the same token, up to a number."""
        first = self.heads[0]
        return first.alone or self.point.parallel[first.layer - 1]

    @cached_property
    def bias(self) -> str:
        """Which biases they have."""
        return self.heads[0].mechanism.bias

    def mixed(self) -> Iterator[Tangent]:
        """Family 19."""
        first = self.heads[0]
        n, a, r = len(self.heads), first.a, self.B.ncols()
        if n == 1 or first.dv is not None:
            return
        if self.bias == "none":
            if r <= (2 * a if self.joint else a):
                yield from self._pairs(self._parallel if self.joint else self._keys_fixed)
            elif not self.joint and n - 1 > (r - a) ** 2:
                yield from self._some()
        elif not self.joint:
            if self._extended("key").ncols() <= a:
                yield from self._pairs(self._keys_fixed)
            elif self._extended("query").ncols() <= a:
                yield from self._pairs(self._queries_fixed)

    # One head's values are added to another's, and the scores make up for it.

    def _pairs(self, undo: object) -> Iterator[Tangent]:
        assert callable(undo)
        for h, k in product(self.heads, repeat=2):
            if h is not k:
                moved = {h.key("W_V"): self.point.matrices[k.key("W_V")]}
                yield together(moved, undo(h, k))

    def _keys_fixed(self, h: Head, k: Head) -> Tangent:
        A = times(self._map(h, "K").transpose(), self._map(h, "Q"))
        return self._cut(k, "Q", lifted(self._map(k, "K"), self._extended("key"), -A))

    def _queries_fixed(self, h: Head, k: Head) -> Tangent:
        A = times(self._map(h, "Q").transpose(), self._map(h, "K"))
        return self._cut(k, "K", lifted(self._map(k, "Q"), self._extended("query"), -A))

    def _parallel(self, h: Head, k: Head) -> Tangent:
        A = times(self._map(h, "K").transpose(), self._map(h, "Q"))
        half = (self.point.p + 1) // 2
        both = above([self._map(k, "K"), self._map(k, "Q")])
        Y = lifted(both, self.B, (A + A.transpose()) * -half)
        a, everything = k.a, range(Y.ncols())
        return {
            k.key("W_Q"): select(Y, range(a), everything),
            k.key("W_K"): select(Y, range(a, 2 * a), everything),
        }

    def _some(self) -> Iterator[Tangent]:
        """`mix-some-heads` of C7.3."""
        point, B, p = self.point, self.B, self.point.p
        a, r, what = self.heads[0].a, B.ncols(), "mix-some-heads: what alike heads read"
        free = r - a
        onto = beside([inverse(top(B, r)), point.zero(r, B.nrows() - r)])
        K, Q = ({h: times(self._map(h, name), B) for h in self.heads} for name in "KQ")
        for k in self.heads:
            others = [h for h in self.heads if h is not k]
            A = {h: times(K[h].transpose(), Q[h]) for h in others}
            left, right = (stacked(annihilator(M, what), p) for M in (K[k], Q[k]))
            seen = [times(times(left, A[h]), right.transpose()).entries() for h in others]
            equations = nmod_mat(len(others), free * free, [x for row in seen for x in row], p)
            into, out = (inverse(select(M, range(a), range(a))) for M in (K[k], Q[k]))
            for c in annihilator(equations.transpose(), what):
                tangent: Tangent = {}
                X = point.zero(r, r)
                for h, factor in zip(others, c, strict=True):
                    tangent[h.key("W_V")] = point.matrices[k.key("W_V")] * factor
                    X = X - A[h] * factor
                D = times(into.transpose(), top(X, a))
                rest = select(X - times(K[k].transpose(), D), range(r), range(a))
                tangent[k.key("W_Q")] = times(D, onto)
                tangent[k.key("W_K")] = times(times(rest, out).transpose(), onto)
                yield tangent

    def _map(self, head: Head, letter: str) -> nmod_mat:
        """W_K or W_Q, beside its bias if it has one."""
        keys = head.keys if letter == "K" else head.queries
        return beside([self.point.matrices[key] for key in keys])

    def _extended(self, which: str) -> nmod_mat:
        """B, with one more row and column if keys (queries) have biases."""
        if self.bias not in (which, "both"):
            return self.B
        rows, columns = self.B.nrows(), self.B.ncols()
        result = self.point.zero(rows + 1, columns + 1)
        for i, j in product(range(rows), range(columns)):
            result[i, j] = self.B[i, j]
        result[rows, columns] = 1
        return result

    def _cut(self, head: Head, letter: str, matrix: nmod_mat) -> Tangent:
        """A tangent of [W, b], cut into both."""
        keys: list[Key] = head.keys if letter == "K" else head.queries
        d = head.width_in
        columns = [range(d), range(d, d + 1)]
        return {
            key: select(matrix, range(matrix.nrows()), part)
            for key, part in zip(keys, columns, strict=False)
        }
