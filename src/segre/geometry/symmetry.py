"""The symmetries of a stack: changes of the weights that leave the function as it is.

Each piece is a family of vector fields on weight space, given by a formula in the weights,
along which the function does not change. Evaluated at a random point mod p, their rank there
is at most their generic rank, so

    dimension  <=  parameters - rank.

Dimensions of pieces are counted in order, each beyond the ones before, so that they add up.
The formulas, and why each is a symmetry, are in docs/mathematics.md, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from segre.errors import UnluckyError
from segre.fields.exchange import exchange
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.geometry.reach import Passage, annihilator, parallel_tokens, silent
from segre.network import LayerWeights, layer_starts, slots, unflatten
from segre.spec import Network
from segre.stage import Slot


@dataclass(frozen=True, slots=True)
class Piece:
    """A named family of generators at a point: one tangent vector of weights per row."""

    kind: str
    name: str
    layer: int
    head: int | None
    generators: Array


class _Canvas:
    """Generators under construction: a zero matrix with a view of every weight tensor."""

    def __init__(self, count: int, slots_of: list[list[Slot]]) -> None:
        last = slots_of[-1][-1]
        self.rows = np.zeros((count, last.range.stop))
        self._slots = slots_of

    def __call__(self, layer: int, name: str) -> Array:
        """The tensor `name` of a layer in every generator: (count, heads, rows, columns)."""
        slot = next(s for s in self._slots[layer] if s.name == name)
        return self.rows[:, slot.range].reshape(-1, *slot.shape)


class Generators:
    """All symmetry generators of a network at given weights mod p."""

    def __init__(self, field: Prime, spec: Network, weights: Array) -> None:
        self.field = field
        self.spec = spec
        starts = layer_starts(spec)
        self._slots = [slots(layer, at) for layer, at in zip(spec.layers, starts, strict=True)]
        self._weights: list[LayerWeights[Array]] = [
            unflatten(layer, weights[at : at + layer.parameters])
            for layer, at in zip(spec.layers, starts, strict=True)
        ]

    def pieces(self) -> Iterator[Piece]:
        """The pieces that are not empty, from the last layer to the first."""
        return (piece for piece in self._pieces() if len(piece.generators))

    def _pieces(self) -> Iterator[Piece]:
        """The pieces that apply to this architecture, from the last layer to the first.

        In this order the weights a piece moves are mostly untouched by the pieces before,
        and their joint rank is cheap to compute.
        """
        spec = self.spec
        passage = Passage.of(self.field, spec, self._weights)
        parallel = parallel_tokens(spec)
        for i in reversed(range(spec.depth)):
            image, forms = passage.images[i], passage.forms[i + 1]
            if i + 1 < spec.depth:
                yield self._between(i)
            yield from self._unread(i, forms)
            yield from self._unreached(i, image)
            if silent(spec):
                yield self._silent_scores(i)
                yield self._pooled_heads(i)
            else:
                yield from self._heads(i, parallel[i])
                yield from self._mix_heads(i, image, parallel[i])

    def _heads(self, i: int, parallel: bool) -> Iterator[Piece]:
        head = self.spec.layers[i].attention
        mechanism = self.spec.mechanism
        for h in range(head.heads):
            yield self._query_key(i, h)
            if mechanism.bilinear and parallel and head.a > 1:
                yield self._skew_scores(i, h)
            if head.dv is not None:
                yield self._value_output(i, h)
            if mechanism.scales:
                yield self._scale(i, h)

    def _canvas(self, count: int) -> _Canvas:
        return _Canvas(count, self._slots)

    def _query_key(self, i: int, h: int) -> Piece:
        """(K, Q) -> (G^-T K, G Q): dQ = E Q, dK = -E^T K."""
        w, a = self._weights[i], self.spec.layers[i].attention.a
        canvas = self._canvas(a * a)
        dK, dQ = canvas(i, "W_K"), canvas(i, "W_Q")
        j, k = np.divmod(np.arange(a * a), a)
        dQ[range(a * a), h, j] = w.W_Q[h, k]
        dK[range(a * a), h, k] = -w.W_K[h, j]
        return Piece("query-key", f"query-key basis GL({a})", i + 1, h + 1, canvas.rows)

    def _skew_scores(self, i: int, h: int) -> Piece:
        """Parallel tokens: dK = M Q and dQ = N K with M, N skew change A by skew matrices."""
        w, a = self._weights[i], self.spec.layers[i].attention.a
        pairs = [(j, k) for j in range(a) for k in range(j)]
        canvas = self._canvas(2 * len(pairs))
        dK, dQ = canvas(i, "W_K"), canvas(i, "W_Q")
        for n, (j, k) in enumerate(pairs):
            dK[2 * n, h, j], dK[2 * n, h, k] = w.W_Q[h, k], -w.W_Q[h, j]
            dQ[2 * n + 1, h, j], dQ[2 * n + 1, h, k] = w.W_K[h, k], -w.W_K[h, j]
        name = f"skew part of scores, O({a},{a})"
        return Piece("skew-scores", name, i + 1, h + 1, canvas.rows)

    def _value_output(self, i: int, h: int) -> Piece:
        """(W_V, W_O) -> (G W_V, W_O G^-1) within one head."""
        w, dv = self._weights[i], self.spec.layers[i].attention.dv or 0
        assert w.W_O is not None
        canvas = self._canvas(dv * dv)
        dV, dO = canvas(i, "W_V"), canvas(i, "W_O")
        for j in range(dv):
            for k in range(dv):
                dV[j * dv + k, h, j] = w.W_V[h, k]
                dO[j * dv + k, h, :, k] = -w.W_O[h, :, j]
        return Piece("value-output", f"value-output basis GL({dv})", i + 1, h + 1, canvas.rows)

    def _scale(self, i: int, h: int) -> Piece:
        """Lightning: (V, Q) -> (c V, Q / c)."""
        w = self._weights[i]
        canvas = self._canvas(1)
        last = "W_V" if w.W_O is None else "W_O"
        canvas(i, last)[0, h] = getattr(w, last)[h]
        canvas(i, "W_Q")[0, h] = -w.W_Q[h]
        return Piece("scale", "scale of scores against values", i + 1, h + 1, canvas.rows)

    def _between(self, i: int) -> Piece:
        """Basis of the tokens between two layers: written with C, read with C^-1."""
        d = self.spec.layers[i].width_out
        w, after = self._weights[i], self._weights[i + 1]
        last = "W_V" if w.W_O is None else "W_O"
        canvas = self._canvas(d * d)
        written = canvas(i, last)
        reading = [(canvas(i + 1, n), getattr(after, n)) for n in ("W_K", "W_Q", "W_V")]
        j, k = np.divmod(np.arange(d * d), d)
        written[range(d * d), :, j] = getattr(w, last)[:, k].swapaxes(0, 1)
        for tangent, value in reading:
            tangent[range(d * d), :, :, k] = -np.moveaxis(value[:, :, j], -1, 0)
        return Piece("between", f"token basis GL({d})", i + 1, None, canvas.rows)

    def _unreached(self, i: int, image: Array) -> Iterator[Piece]:
        """Add to the rows of a map any linear form that vanishes on all that can arrive."""
        w, heads = self._weights[i], self.spec.layers[i].attention.heads
        outside = _outside(self.field, image.T)
        if w.W_O is None and not len(outside):
            return
        blind = dict.fromkeys(("W_K", "W_Q", "W_V"), _in_each_head([outside] * heads))
        if w.W_O is not None:
            arriving = self.field.matmul(w.W_V, image)
            blind["W_O"] = self._annihilators(arriving)
        canvas = self._canvas(sum(getattr(w, n).shape[1] * len(f) for n, f in blind.items()))
        start = 0
        for name, forms in blind.items() if len(canvas.rows) else ():
            tensor = canvas(i, name)
            for row in range(tensor.shape[2]):
                tensor[start : start + len(forms), :, row] = forms
                start += len(forms)
        yield Piece("unreached", "directions no token reaches", i + 1, None, canvas.rows)

    def _unread(self, i: int, forms: Array) -> Iterator[Piece]:
        """Add to the columns of a map any vector that nothing later reads."""
        w, heads = self._weights[i], self.spec.layers[i].attention.heads
        outside = _outside(self.field, forms)
        if w.W_O is None and not len(outside):
            return
        hidden = _in_each_head([outside] * heads)
        unread = {"W_V" if w.W_O is None else "W_O": hidden}
        if w.W_O is not None:
            unread["W_V"] = self._annihilators(
                self.field.transpose(self.field.matmul(forms, w.W_O))
            )
        canvas = self._canvas(sum(getattr(w, n).shape[2] * len(v) for n, v in unread.items()))
        start = 0
        for name, vectors in unread.items() if len(canvas.rows) else ():
            tensor = canvas(i, name)
            for column in range(tensor.shape[3]):
                tensor[start : start + len(vectors), :, :, column] = vectors
                start += len(vectors)
        yield Piece("unread", "directions no layer reads", i + 1, None, canvas.rows)

    def _annihilators(self, columns: Array) -> Array:
        """Forms on the inner space of the heads that vanish on given columns: (n, heads, dv).

        Head by head; but where scores are silent, the heads' inner spaces are one space.
        """
        heads, dv, _ = columns.shape
        if silent(self.spec):
            joint = columns.reshape(heads * dv, -1)
            return annihilator(self.field, joint.T).reshape(-1, heads, dv)
        return _in_each_head([annihilator(self.field, one.T) for one in columns])

    def _silent_scores(self, i: int) -> Piece:
        """Softmax over one token is 1: K and Q have no effect."""
        count = self._slots[i][2].start - self._slots[i][0].start
        canvas = self._canvas(count)
        canvas.rows[range(count), range(self._slots[i][0].start, self._slots[i][2].start)] = 1
        return Piece("silent-scores", "scores of a single token", i + 1, None, canvas.rows)

    def _pooled_heads(self, i: int) -> Piece:
        """Softmax over one token: only the sum of the heads' value maps counts."""
        w = self._weights[i]
        heads, rows, columns = w.W_V.shape
        if w.W_O is None:
            canvas = self._canvas((heads - 1) * rows * columns)
            own = canvas.rows[:, self._slots[i][2].range].reshape(-1, heads, rows * columns)
            for h in range(1, heads):
                at = range((h - 1) * rows * columns, h * rows * columns)
                own[at, h, range(rows * columns)] = 1
                own[at, 0, range(rows * columns)] = -1
            return Piece("pooled-heads", "only the sum of heads counts", i + 1, None, canvas.rows)
        inner = heads * rows
        V = w.W_V.reshape(inner, columns)
        canvas = self._canvas(inner * inner)
        dV = canvas(i, "W_V").reshape(-1, inner, columns)
        dO = canvas(i, "W_O")
        for j in range(inner):
            for k in range(inner):
                dV[j * inner + k, j] = V[k]
                dO[j * inner + k, k // rows, :, k % rows] = -w.W_O[j // rows, :, j % rows]
        name = f"value-output basis of all heads GL({inner})"
        return Piece("pooled-heads", name, i + 1, None, canvas.rows)

    def _mix_heads(self, i: int, image: Array, parallel: bool) -> Iterator[Piece]:
        """Lightning heads of full rank: sum_h V_h (x) A_h is a matrix product, GL(heads) acts.

        V_h gains V_k while A_k loses A_h. On tokens B y, A_k = K_k^T Q_k has any rank that y
        allows, so dQ_k = -R_k B^T A_h with (K_k B)^T R_k = 1. For parallel tokens only the
        symmetric part counts: with C = (K; Q) and J exchanging the two, C^T J C is twice it,
        and dC_k = -J R_k B^T (A_h + A_h^T) / 2 with (C_k B)^T R_k = 1.
        """
        w, head = self._weights[i], self.spec.layers[i].attention
        F, r, heads, a = self.field, image.shape[1], head.heads, head.a
        enough = r <= (2 * a if parallel else a)
        if not self.spec.mechanism.bilinear or heads == 1 or head.dv is not None or not enough:
            return
        A = F.matmul(F.transpose(w.W_K), w.W_Q)
        canvas = self._canvas(heads * (heads - 1))
        dK, dQ, dV = canvas(i, "W_K"), canvas(i, "W_Q"), canvas(i, "W_V")
        pairs = [(h, k) for h in range(heads) for k in range(heads) if h != k]
        for n, (h, k) in enumerate(pairs):
            dV[n, h] = w.W_V[k]
            if parallel:
                C = np.concatenate([w.W_K[k], w.W_Q[k]])
                halved = F.constant(np.array((F.p - 1) // 2)) * F.add(A[h], A[h].T)
                dC = np.zeros_like(C)
                dC[:r] = self._solve(F.matmul(C[:r], image), F.matmul(image.T, F.reduce(halved)))
                dK[n, k], dQ[n, k] = dC[a:], dC[:a]
            else:
                dQ[n, k, :r] = -self._solve(F.matmul(w.W_K[k, :r], image), F.matmul(image.T, A[h]))
        yield Piece("mix-heads", f"mixing of heads GL({heads})", i + 1, None, canvas.rows)

    def _solve(self, square: Array, right: Array) -> Array:
        """The solution Y of square^T Y = right."""
        return self.field.matmul(_inverse(self.field, square.T), right)


def _outside(field: Prime, basis: Array) -> Array:
    """The annihilator of a basis: nothing, if it spans everything."""
    rows, columns = basis.shape
    return np.zeros((0, columns)) if rows == columns else annihilator(field, basis)


def _in_each_head(vectors: list[Array]) -> Array:
    """Vectors of the heads' own spaces as vectors of all heads, zero in the others."""
    heads = len(vectors)
    out = np.zeros((sum(map(len, vectors)), heads, vectors[0].shape[1]))
    start = 0
    for h, own in enumerate(vectors):
        out[start : start + len(own), h] = own
        start += len(own)
    return out


def _inverse(field: Prime, matrix: Array) -> Array:
    """The inverse of a square matrix; raises UnluckyError if it is singular."""
    tableau = np.array(matrix)
    rows, columns = exchange(field, tableau)
    if len(rows) < len(matrix):
        raise UnluckyError("a matrix that must be inverted is singular; try another seed")
    out = np.empty_like(tableau)
    out[np.ix_(columns, rows)] = tableau[np.ix_(rows, columns)]
    return out
