"""Which of its symmetries make gradient flow conserve something, and what?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from math import isqrt
from typing import Any

import numpy as np

from segre.architectures import Architecture
from segre.attention.symmetries import POOLED
from segre.errors import UnsupportedError
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.finding import Symmetry
from segre.geometry.conserved import Conserved, conserved_quantities
from segre.geometry.point import Point, at_usable_point
from segre.json_data import stated
from segre.models import Source, architecture
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.symmetry.all import Generators, generators
from segre.values import quote

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
        return {
            "independent": self.independent,
            "laws": [law.document() for law in self.every],
        }


def has_laws(spec: Architecture) -> bool:
    """Whether conserved quantities are known for this kind of network."""
    return _acting.dispatch(type(spec)) is not _acting.dispatch(object) and not spec.salted


def laws(spec: Source, seed: int = 0) -> Laws:
    """What gradient flow conserves because of the symmetries of an architecture.

    >>> found = laws("lightning/d=4,4/a=2/t=3")
    >>> [(law.acts, law.formula, law.count) for law in found.every]
    [('GL(2)', 'W_Q W_Q^T - W_K W_K^T', 3), ('GL(1)', '|W_V|^2 - |W_Q|^2', 1)]
    >>> found.independent
    4
    """
    net = architecture(spec)
    if not has_laws(net):
        raise UnsupportedError(
            f"spec {quote(str(net))}: conserved quantities are supported for stacks of plain "
            "softmax or lightning and for polynomial networks; for other symmetries use segre "
            "explain"
        )
    return at_usable_point(net, seed, _laws_at)


def _laws_at(point: Point) -> Laws:
    spec = point.spec
    known = {(law.kind, law.layer, law.head): law for law in conserved_quantities(spec)}
    space = Echelon(spec.parameters, point.field)
    every = []
    for found in generators(point.field, spec, point.weights):
        piece = found.piece
        assert piece.layer is not None
        law = known.get((piece.kind, piece.layer, piece.head))
        if law is not None:
            space.add(gradients(point.field, found))
        acts = _acting(spec, found)
        reason = _REASONS[piece.kind] if law is None else None
        where = (piece.where, piece.layer, piece.head)
        every.append(Law(piece.kind, piece.name, *where, acts, law, reason))
    every.sort(key=lambda law: (law.layer, law.kind == "between"))
    return Laws(tuple(every), space.rank)


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
