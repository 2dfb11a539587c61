"""Along which tangent vectors does nothing change? The pieces of section 7.3 of the document.

A vector is a list of (number of a weight, value), no number twice, the rest zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from flint import nmod_mat

from segre.attention.layer import Layer
from segre.referee.dimensions import Dimensions
from segre.referee.linear import above, annihilator, beside, integers, select, top
from segre.referee.network import Key, Point, Slot
from segre.referee.rejection import RejectionError
from segre.referee.spans import Spans

Vector = list[tuple[int, int]]
LATE = "mix-some-heads"  # a piece that earlier certificates do not have


@dataclass(frozen=True)
class Piece:
    """A family of tangent vectors, drawn up only as they are read."""

    kind: str
    layer: int
    head: int | None
    vectors: Iterable[Vector]


class Pieces:
    """All pieces at a point, in the order of the document."""

    def __init__(self, point: Point, dimensions: Dimensions, spans: Spans) -> None:
        self.point = point
        self.dimensions = dimensions
        self.spans = spans
        self.slots: dict[Key, Slot] = {slot.key: slot for slot in point.slots}
        self.tables = {key: integers(matrix) for key, matrix in point.weights.items()}

    def __iter__(self) -> Iterator[Piece]:
        net = self.point.net
        for i in range(net.depth, 0, -1):
            layer = net.layers[i - 1]
            if i < net.depth:
                yield Piece("between", i, None, self._between(i))
            yield Piece("unread", i, None, self._unread(i))
            yield Piece("unreached", i, None, self._unreached(i))
            if self.dimensions.silent:
                yield Piece("silent-scores", i, None, self._silent_scores(i))
                yield Piece("pooled-heads", i, None, self._pooled_heads(i))
                continue
            for h in _heads(layer):
                yield Piece("query-key", i, h, self._query_key(i, h))
                if self.dimensions.parallel[i - 1]:
                    yield Piece("skew-scores", i, h, self._skew_scores(i, h))
                if layer.dv is not None:
                    yield Piece("value-output", i, h, self._value_output(i, h))
                if net.score == "lightning":
                    yield Piece("scale", i, h, self._scale(i, h))
            if net.score == "lightning" and layer.dv is None:
                yield Piece("mix-heads", i, None, self._mix_heads(i))
        for i in range(net.depth, 0, -1):
            if net.score == "lightning" and net.layers[i - 1].dv is None:
                yield Piece(LATE, i, None, self._mix_some_heads(i))

    # Building blocks: parts of vectors in one weight matrix.

    def _rows(self, key: Key, j: int, k: int, sign: int, source: Key | None = None) -> Vector:
        """Sign times E_jk M in the place of one matrix, where M is that or another matrix."""
        slot, table = self.slots[key], self.tables[source or key]
        start = slot.offset + j * slot.columns
        return [(start + c, sign * value) for c, value in enumerate(table[k])]

    def _columns(self, key: Key, j: int, k: int, sign: int) -> Vector:
        """Sign times M E_jk in the place of M."""
        slot, table = self.slots[key], self.tables[key]
        start = slot.offset + k
        return [(start + r * slot.columns, sign * row[j]) for r, row in enumerate(table)]

    def _row(self, key: Key, r: int, form: Sequence[int]) -> Vector:
        slot = self.slots[key]
        return list(enumerate(form, start=slot.offset + r * slot.columns))

    def _column(self, key: Key, c: int, vector: Sequence[int]) -> Vector:
        slot = self.slots[key]
        return [(slot.offset + r * slot.columns + c, x) for r, x in enumerate(vector)]

    def _whole(self, key: Key, matrix: nmod_mat) -> Vector:
        return list(enumerate(map(int, matrix.entries()), start=self.slots[key].offset))

    # The pieces.

    def _between(self, i: int) -> Iterator[Vector]:
        net = self.point.net
        here, there = net.layers[i - 1], net.layers[i]
        for j, k in _pairs(here.width_out):
            vector: Vector = []
            for h in _heads(here):
                vector += self._rows((i, _last(here), h), j, k, 1)
            for h in _heads(there):
                for name in "KQV":
                    vector += self._columns((i + 1, name, h), j, k, -1)
            yield vector

    def _unread(self, i: int) -> Iterator[Vector]:
        layer, R = self.point.net.layers[i - 1], self.spans.read[i]
        heads, weights = _heads(layer), self.point.weights
        unseen = annihilator(R, f"the forms read after layer {i}")
        for h in heads:
            key = (i, _last(layer), h)
            for n, c in product(unseen, range(self.slots[key].columns)):
                yield self._column(key, c, n)
        dv = layer.dv
        if dv is None:
            return
        outputs = [R * weights[i, "O", h] for h in heads]
        what = f"what is read of the values of layer {i}"
        if self.dimensions.silent:
            joint = annihilator(beside(outputs), what)
            for n, c in product(joint, range(layer.width_in)):
                parts = ((h, n[(h - 1) * dv : h * dv]) for h in heads)
                yield [x for h, part in parts for x in self._column((i, "V", h), c, part)]
            return
        for h, output in zip(heads, outputs, strict=True):
            for n, c in product(annihilator(output, what), range(layer.width_in)):
                yield self._column((i, "V", h), c, n)

    def _unreached(self, i: int) -> Iterator[Vector]:
        layer, B = self.point.net.layers[i - 1], self.spans.reached[i - 1]
        heads, weights = _heads(layer), self.point.weights
        missed = annihilator(B.transpose(), f"the tokens before layer {i}")
        for h, name in product(heads, "KQV"):
            key = (i, name, h)
            for f, r in product(missed, range(self.slots[key].rows)):
                yield self._row(key, r, f)
        dv = layer.dv
        if dv is None:
            return
        values = [weights[i, "V", h] * B for h in heads]
        what = f"what reaches the values of layer {i}"
        if self.dimensions.silent:
            joint = annihilator(above(values).transpose(), what)
            for f, r in product(joint, range(layer.width_out)):
                parts = ((h, f[(h - 1) * dv : h * dv]) for h in heads)
                yield [x for h, part in parts for x in self._row((i, "O", h), r, part)]
            return
        for h, value in zip(heads, values, strict=True):
            for f, r in product(annihilator(value.transpose(), what), range(layer.width_out)):
                yield self._row((i, "O", h), r, f)

    def _silent_scores(self, i: int) -> Iterator[Vector]:
        for name, h in product("KQ", _heads(self.point.net.layers[i - 1])):
            for weight in _places(self.slots[i, name, h]):
                yield [(weight, 1)]

    def _pooled_heads(self, i: int) -> Iterator[Vector]:
        layer = self.point.net.layers[i - 1]
        heads, dv = layer.heads, layer.dv
        if dv is None:
            first = self.slots[i, "V", 1]
            for h in range(2, heads + 1):
                pairs = zip(_places(self.slots[i, "V", h]), _places(first), strict=True)
                for weight, other in pairs:
                    yield [(weight, 1), (other, -1)]
            return
        for j, k in _pairs(heads * dv):
            # Row j of the stacked W belongs to head j // dv, and so does column j of O.
            (hj, rj), (hk, rk) = divmod(j, dv), divmod(k, dv)
            moved = self._row((i, "V", hj + 1), rj, self.tables[i, "V", hk + 1][rk])
            column = [-row[rj] for row in self.tables[i, "O", hj + 1]]
            yield moved + self._column((i, "O", hk + 1), rk, column)

    def _query_key(self, i: int, h: int) -> Iterator[Vector]:
        for j, k in _pairs(self.point.net.layers[i - 1].a):
            yield self._rows((i, "Q", h), j, k, 1) + self._rows((i, "K", h), k, j, -1)

    def _skew_scores(self, i: int, h: int) -> Iterator[Vector]:
        K, Q = (i, "K", h), (i, "Q", h)
        for j, k in _pairs(self.point.net.layers[i - 1].a):
            if k < j:
                yield self._rows(K, j, k, 1, Q) + self._rows(K, k, j, -1, Q)
                yield self._rows(Q, j, k, 1, K) + self._rows(Q, k, j, -1, K)

    def _value_output(self, i: int, h: int) -> Iterator[Vector]:
        for j, k in _pairs(self.point.net.layers[i - 1].dv or 0):
            yield self._rows((i, "V", h), j, k, 1) + self._columns((i, "O", h), j, k, -1)

    def _scale(self, i: int, h: int) -> Iterator[Vector]:
        last = (i, _last(self.point.net.layers[i - 1]), h)
        weights = self.point.weights
        yield self._whole(last, weights[last]) + self._whole((i, "Q", h), -weights[i, "Q", h])

    def _mix_heads(self, i: int) -> Iterator[Vector]:
        layer, B = self.point.net.layers[i - 1], self.spans.reached[i - 1]
        a, parallel = layer.a, self.dimensions.parallel[i - 1]
        if B.ncols() > (2 * a if parallel else a):
            return
        weights, heads = self.point.weights, _heads(layer)
        for h, k in product(heads, heads):
            if h == k:
                continue
            A = weights[i, "K", h].transpose() * weights[i, "Q", h]
            K, Q = weights[i, "K", k], weights[i, "Q", k]
            vector = self._whole((i, "V", h), weights[i, "V", k])
            if parallel:
                half = (self.point.prime + 1) // 2
                Y = lifted(above([K, Q]), B, (A + A.transpose()) * -half)
                upper, lower = range(a), range(a, 2 * a)
                vector += self._whole((i, "Q", k), select(Y, upper, range(Y.ncols())))
                vector += self._whole((i, "K", k), select(Y, lower, range(Y.ncols())))
            else:
                vector += self._whole((i, "Q", k), lifted(K, B, -A))
            yield vector

    def _mix_some_heads(self, i: int) -> Iterator[Vector]:
        layer, B = self.point.net.layers[i - 1], self.spans.reached[i - 1]
        a, r, p = layer.a, B.ncols(), self.point.prime
        free = r - a
        if self.dimensions.parallel[i - 1] or free < 1 or len(_heads(layer)) - 1 <= free * free:
            return
        weights, what = self.point.weights, f"the heads of layer {i}"
        onto = beside([inverse(top(B, r)), nmod_mat(r, B.nrows() - r, p)])
        K, Q = ({h: weights[i, name, h] * B for h in _heads(layer)} for name in "KQ")
        for k in _heads(layer):
            others = [h for h in _heads(layer) if h != k]
            A = {h: K[h].transpose() * Q[h] for h in others}
            left, right = (stacked(annihilator(M, what), p) for M in (K[k], Q[k]))
            seen = [(left * A[h] * right.transpose()).entries() for h in others]
            equations = nmod_mat(len(others), free * free, [x for row in seen for x in row], p)
            for c in annihilator(equations.transpose(), what):
                vector: Vector = []
                X = nmod_mat(r, r, p)
                for h, factor in zip(others, c, strict=True):
                    vector += self._whole((i, "V", h), weights[i, "V", k] * factor)
                    X = X - A[h] * factor
                dQ = inverse(select(K[k], range(a), range(a))).transpose() * top(X, a)
                rest = select(X - K[k].transpose() * dQ, range(r), range(a))
                dK = (rest * inverse(select(Q[k], range(a), range(a)))).transpose()
                vector += self._whole((i, "Q", k), dQ * onto)
                yield vector + self._whole((i, "K", k), dK * onto)


def stacked(rows: list[list[int]], p: int) -> nmod_mat:
    """Rows (at least one) as a matrix."""
    return nmod_mat(len(rows), len(rows[0]), [x for row in rows for x in row], p)


def inverse(matrix: nmod_mat) -> nmod_mat:
    """The inverse, where it is asked for."""
    if matrix.rank() != matrix.nrows():
        raise RejectionError(f"{LATE}: a system to be solved is singular at this point")
    return matrix.inv()


def lifted(C: nmod_mat, B: nmod_mat, A: nmod_mat) -> nmod_mat:
    """Y with the rows of C, zero after the first r, with (C B)^T Y = B^T A; r columns in B."""
    r = B.ncols()
    system = top(C * B, r).transpose()
    if system.rank() != r:
        raise RejectionError("mix-heads: a system to be solved is singular at this point")
    solution = system.solve(B.transpose() * A)
    return above([solution, nmod_mat(C.nrows() - r, A.ncols(), C.modulus())])


def _heads(layer: Layer) -> range:
    return range(1, layer.heads + 1)


def _last(layer: Layer) -> str:
    return "V" if layer.dv is None else "O"


def _pairs(size: int) -> Iterator[tuple[int, int]]:
    return ((j, k) for j in range(size) for k in range(size))


def _places(slot: Slot) -> range:
    return range(slot.offset, slot.offset + slot.rows * slot.columns)
