"""Symmetries and training: the quantities that gradient flow conserves.

Let dw/dt = -g with g the gradient of a loss that sees the weights only through the function. A
symmetry that acts linearly, dw = X w, leaves the loss as it is, so <g, X w> = 0. If the matrix X
is symmetric, X w is the gradient of <w, X w> / 2, and

    d/dt <w, X w>  =  2 <dw/dt, X w>  =  -2 <g, X w>  =  0.

If X is skew, <w, X w> = 0 and nothing follows. So GL(n) with its n^2 dimensions has n (n + 1) / 2
conserved quantities, the entries of one symmetric matrix. A constant translation dw = b
conserves <w, b>. For symmetries that depend on the weights in other ways nothing is claimed.
Proofs and examples are in docs/training.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from math import isqrt
from typing import Any

import numpy as np

from segre.architectures import Architecture
from segre.attention.symmetries import POOLED
from segre.errors import UnsupportedError
from segre.fields.interface import Array, Field
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.finding import Symmetry
from segre.geometry.point import Point, at_usable_point
from segre.json_data import stated
from segre.models import Source, architecture
from segre.network import LayerWeights
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.symmetry.all import Generators, generators, pieces
from segre.symmetry.piece import Piece
from segre.values import quote
from segre.weights import Weights

# The groups that act on a layer of a stack, by kind of symmetry.
_GROUPS = {
    "query-key": "GL({0.a})",
    "skew-scores": "O({0.a},{0.a})",
    "value-output": "GL({0.dv})",
    "scale": "GL(1)",
    "between": "GL({0.width_out})",
    "mix-heads": "GL({0.heads})",
}
# Why a family conserves nothing that is known: its vector fields are not of the form X w or b.
_REASONS = {
    "unread": "not linear in the weights: the unread directions depend on later weights",
    "unreached": "not linear in the weights: the reached directions depend on earlier weights",
    "mix-heads": "not linear in the weights: W_K and W_Q change through their inverses",
    "mix-some-heads": "not linear in the weights: which heads mix depends on all heads",
    "mix-factored-heads": "not linear in the weights: W_K and W_Q change through their inverses",
    "filled": "not linear in the weights: which changes keep the joint tensor depends on all heads",
    "shift": "not linear in the weights: the change of the next bias depends on other weights",
}
_TURNED = ("query-key", "scale")  # whose generators grow what the quantity subtracts


@dataclass(frozen=True)
class Conserved:
    """A quantity that gradient flow conserves, and its number of independent entries.

    `layer` and `head` count from 1; `head` is None for a quantity of the whole layer (of the
    layer and the next one, for `between`). `count` is for this quantity by itself.

    >>> law, = conserved_quantities(Network.parse("softmax/d=3,3/a=2/t=2"))
    >>> law.formula, law.count
    ('W_Q W_Q^T - W_K W_K^T', 3)
    >>> law.evaluate(Weights.random(Network.parse("softmax/d=3,3/a=2/t=2"))).shape
    (2, 2)
    """

    kind: str
    where: str
    layer: int
    head: int | None
    formula: str
    count: int

    def evaluate(self, weights: Weights) -> Array:
        """Its value at given weights: a matrix, or a batch of them; exact for exact weights."""
        plus, minus = self.sides(weights.field, weights.layers)
        return weights.field.sub(plus, minus)

    def sides(self, field: Field[Array], layers: list[LayerWeights[Array]]) -> tuple[Array, Array]:
        """The two quantities whose difference is conserved, over any field.

        Training moves both (unless the weights in question have no effect at all).
        """
        w = layers[self.layer - 1]
        K, Q, V = w.W_K, w.W_Q, w.W_V
        last = V if w.W_O is None else w.W_O
        h = slice(None) if self.head is None else slice(self.head - 1, self.head)
        match self.kind:
            case "query-key":
                return _rows(field, Q[h]), _rows(field, K[h])
            case "skew-scores":
                product = field.matmul(K[h], field.transpose(Q[h]))[0]
                return product, field.transpose(product)
            case "value-output":
                return _rows(field, V[h]), _columns(field, last[h])
            case "scale":
                return _square(field, last[h]), _square(field, Q[h])
            case "between":
                after = layers[self.layer]
                reading = (after.W_K, after.W_Q, after.W_V)
                read = np.concatenate([W.reshape(1, -1, W.shape[-1]) for W in reading], axis=1)
                return _rows(field, last), _columns(field, read)
            case "silent-scores":
                both = np.stack([K, Q], axis=1)
                return both, field.constant(np.zeros(both.shape))
            case "pooled-heads" if w.W_O is None:
                return V[1:], np.broadcast_to(V[:1], V[1:].shape)
            case "pooled-heads":
                stacked = V.reshape(1, -1, V.shape[-1])
                beside = last.transpose(1, 0, 2).reshape(1, last.shape[1], -1)
                return _rows(field, stacked), _columns(field, beside)
        raise AssertionError(f"{self.kind} has no conserved quantity")

    def document(self) -> dict[str, Any]:
        """The quantity as plain data, for JSON."""
        return stated(self, "kind where layer head formula count")


def _rows(field: Field[Array], W: Array) -> Array:
    """sum_h W_h W_h^T: inner products of rows, heads side by side."""
    beside = W.transpose(1, 0, 2).reshape(W.shape[1], -1)
    return field.matmul(beside, field.transpose(beside))


def _columns(field: Field[Array], W: Array) -> Array:
    """sum_h W_h^T W_h: inner products of columns, heads stacked."""
    stacked = W.reshape(-1, W.shape[-1])
    return field.matmul(field.transpose(stacked), stacked)


def _square(field: Field[Array], W: Array) -> Array:
    """The sum of all squares, 1 x 1."""
    return field.matmul(W.reshape(1, -1), W.reshape(-1, 1))


def conserved_quantities(spec: Source) -> list[Conserved]:
    """The conserved quantities of an architecture, first layer first.

    >>> [law.formula for law in conserved_quantities("lightning/d=3,3/a=1/dv=2/t=2")]
    ['W_Q W_Q^T - W_K W_K^T', 'W_V W_V^T - W_O^T W_O', '|W_O|^2 - |W_Q|^2']
    """
    net = _supported(spec)
    found = [law for piece in pieces(net) if (law := _conserved(net, piece)) is not None]
    return sorted(found, key=_in_order)


def _conserved(spec: Architecture, piece: Piece) -> Conserved | None:
    """What is conserved because of a piece of the symmetries, if that is known."""
    said = None if piece.layer is None else _formula(spec, piece, piece.layer)
    if said is None or piece.layer is None:
        return None
    return Conserved(piece.kind, piece.where, piece.layer, piece.head, *said)


def _in_order(law: Conserved | Law) -> tuple[int, bool]:
    return law.layer, law.kind == "between"


@singledispatch
def _formula(_spec: Architecture, _piece: Piece, _layer: int) -> tuple[str, int] | None:
    """The quantity in symbols, and the number of its independent entries."""
    return None


@_formula.register
def _of_stack(spec: Network, piece: Piece, number: int) -> tuple[str, int] | None:
    layer = spec.layers[number - 1]
    d, a, dv, heads, out = layer.width_in, layer.a, layer.dv, layer.heads, layer.width_out
    last = "W_V" if dv is None else "W_O"
    match piece.kind:
        case "silent-scores":
            return "W_K and W_Q", 2 * heads * a * d
        case "pooled-heads" if dv is None:
            return "W_V[h] - W_V[1] for h > 1", (heads - 1) * out * d
        case "pooled-heads":
            count = _symmetric(heads * (dv or 0), d + out)
            return "W_V W_V^T - W_O^T W_O, all heads as one", count
        case "query-key":
            return "W_Q W_Q^T - W_K W_K^T", _symmetric(a, 2 * d)
        case "skew-scores":
            return "W_K W_Q^T - W_Q W_K^T", _skew(a, 2 * d)
        case "value-output":
            return "W_V W_V^T - W_O^T W_O", _symmetric(dv or 0, d + out)
        case "scale":
            return f"|{last}|^2 - |W_Q|^2", 1
        case "between":
            after = spec.layers[number]
            inner = after.width_out if after.dv is None else after.dv
            seen = heads * (d if dv is None else dv) + after.heads * (2 * after.a + inner)
            writing = f"{'sum_h ' * (heads > 1)}{last} {last}^T [layer {number}]"
            reading = f"{'sum_h ' * (after.heads > 1)}(W_K^T W_K + W_Q^T W_Q + W_V^T W_V)"
            return f"{writing} - {reading} [layer {number + 1}]", _symmetric(out, seen)
    return None


@_formula.register
def _of_polynomial(spec: Polynomial, piece: Piece, number: int) -> tuple[str, int] | None:
    """Of the weights w and bias b of a unit, and the weights v that read it."""
    own, after = spec.layers[number - 1], spec.layers[number]
    if piece.kind == "between":
        said = f"W W^T{' + b b^T' * spec.bias} [layer {number}] - W^T W [layer {number + 1}]"
        return said, _symmetric(own.units, own.width_in + spec.bias + after.width_out)
    if piece.kind != "scales":
        return None
    row, column, bias = ("|w|^2", "|w|^2", "b^2")
    if not spec.convolutional:
        row, column, bias = "|W[j,:]|^2", "|W[:,j]|^2", "b[j]^2"
    factor = f"{spec.degree} " * (spec.degree > 1)
    writing = f"{row}{f' + {bias}' * spec.bias} [layer {number}]"
    return f"{writing} - {factor}{column} [layer {number + 1}]", own.units


def _symmetric(n: int, vectors: int) -> int:
    """Generic rank of the differential of C = sum +- u u^T over `vectors` vectors u in R^n.

    A symmetric S is orthogonal to its image if S u = 0 for all u. They span R^n, or leave
    free an S on the quotient by their span.
    """
    free = max(0, n - vectors)
    return (n * (n + 1) - free * (free + 1)) // 2


def _skew(n: int, vectors: int) -> int:
    """The same for the skew part of sum u v^T."""
    free = max(0, n - vectors)
    return (n * (n - 1) - free * (free - 1)) // 2


# --- the laws of an architecture ------------------------------------------------------------------


@dataclass(frozen=True)
class Law:
    """A symmetry family: the acting group, and the quantity that gradient flow conserves.

    Exactly one of `conserved` and `reason` is None.
    """

    kind: str
    name: str
    where: str
    layer: int
    head: int | None
    acts: str
    conserved: Conserved | None
    reason: str | None

    @property
    def formula(self) -> str | None:
        """The conserved quantity, if there is one."""
        return None if self.conserved is None else self.conserved.formula

    @property
    def count(self) -> int:
        """Number of independent scalars of the conserved quantity."""
        return 0 if self.conserved is None else self.conserved.count

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return stated(self, "kind name where layer head acts formula count reason")


@dataclass(frozen=True)
class Laws:
    """What gradient flow conserves, symmetry by symmetry.

    `independent` is the rank of the gradients of all conserved quantities together, at a random
    point mod p: at least that many are independent. It may be less than the sum of the counts, and
    is at most the dimension of the symmetries, since gradients of conserved quantities are
    symmetries.
    """

    every: tuple[Law, ...]
    independent: int

    def of(self, symmetries: tuple[Symmetry, ...]) -> Laws:
        """The same without symmetries that conserve nothing and are not among those given."""
        listed = {(one.name, one.where) for one in symmetries}
        kept = (law for law in self.every if law.conserved or (law.name, law.where) in listed)
        return replace(self, every=tuple(kept))

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return stated(self, "independent", laws=[law.document() for law in self.every])


def has_laws(spec: Architecture) -> bool:
    """Whether conserved quantities are known for this kind of network."""
    return _formula.dispatch(type(spec)) is not _formula.dispatch(object) and not spec.salted


def _supported(spec: Source) -> Architecture:
    net = architecture(spec)
    if has_laws(net):
        return net
    raise UnsupportedError(
        f"spec {quote(str(net))}: conserved quantities are supported for stacks of plain softmax "
        "or lightning and for polynomial networks; for other symmetries use segre explain"
    )


def laws(spec: Source, seed: int = 0) -> Laws:
    """What gradient flow conserves because of the symmetries of an architecture.

    >>> found = laws("lightning/d=4,4/a=2/t=3")
    >>> [(law.acts, law.formula, law.count) for law in found.every]
    [('GL(2)', 'W_Q W_Q^T - W_K W_K^T', 3), ('GL(1)', '|W_V|^2 - |W_Q|^2', 1)]
    >>> found.independent
    4
    """
    return at_usable_point(_supported(spec), seed, _laws_at)


def _laws_at(point: Point) -> Laws:
    spec = point.spec
    space = Echelon(spec.parameters, point.field)
    every = []
    for found in generators(point.field, spec, point.weights):
        piece, law = found.piece, _conserved(spec, found.piece)
        assert piece.layer is not None
        if law is not None:
            space.add(gradients(point.field, found))
        reason = _REASONS[piece.kind] if law is None else None
        where = (piece.where, piece.layer, piece.head)
        every.append(Law(piece.kind, piece.name, *where, _acting(spec, found), law, reason))
    return Laws(tuple(sorted(every, key=_in_order)), space.rank)


def gradients(field: Prime, found: Generators) -> Array:
    """Gradients of the piece's conserved quantity at the piece's point, one scalar per row.

    They are the generators X w with X symmetric: for GL(n) the sums of those of E_jk and E_kj
    (k <= j, the entry (j, k) of the quantity), for the skew part of scores the difference of
    dK = M Q and dQ = M K. Pieces without a conserved quantity have no rows.
    """
    piece, g = found.piece, found.rows
    if piece.kind in _REASONS:
        return g[:0]
    if piece.kind in ("silent-scores", "scales") or piece.name == POOLED.name:
        return g
    if piece.kind == "skew-scores":
        return field.sub(g[0::2], g[1::2])
    if piece.kind in _TURNED:
        g = -g
    n = isqrt(len(g))
    j, k = np.tril_indices(n)
    return field.add(g[j * n + k], g[k * n + j])


@singledispatch
def _acting(_spec: Architecture, _found: Generators) -> str:
    """The acting group, in words."""
    return ""


@_acting.register
def _on_units(spec: Polynomial, found: Generators) -> str:
    units = spec.layers[(found.piece.layer or 1) - 1].units
    named = {"scales": f"GL(1)^{units}", "between": f"GL({units})", "shift": f"R^{units}"}
    return named[found.piece.kind]


@_acting.register
def _on_heads(spec: Network, found: Generators) -> str:
    layer, kind = spec.layers[(found.piece.layer or 1) - 1], found.piece.kind
    if kind == "pooled-heads" and layer.dv is not None:
        return f"GL({layer.heads * layer.dv})"
    if kind in ("pooled-heads", "silent-scores"):
        return f"R^{len(found.rows)}"
    return _GROUPS.get(kind, "translations that depend on other weights").format(layer)
