"""The symmetries of an architecture in a table, each with what gradient flow conserves."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np

from segre.errors import UnluckyError, UnsupportedError
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.finding import Status, Unbounded
from segre.geometry.choice import Choice, choices_undone
from segre.geometry.conserved import Conserved, conserved_quantities
from segre.geometry.memory import DEFAULT_LIMIT, bytes_for_symmetries, require_memory
from segre.geometry.point import Point
from segre.geometry.progress import Progress, quiet
from segre.geometry.rank import symmetry_rank
from segre.models import Source, architecture
from segre.polynomial.spec import Polynomial
from segre.shown import Tabular
from segre.spec import Network
from segre.symmetry.all import Generators, generators
from segre.values import quote

_POINTS = 8

# Why a piece conserves nothing that is known: its vector fields are not of the form X w or b.
_REASONS = {
    "unread": "not linear in the weights: the unread directions depend on later weights",
    "unreached": "not linear in the weights: the reached directions depend on earlier weights",
    "mix-heads": "not linear in the weights: W_K and W_Q change through their inverses",
    "mix-some-heads": "not linear in the weights: which heads mix depends on all heads",
    "mix-factored-heads": "not linear in the weights: W_K and W_Q change through their inverses",
    "filled": "not linear in the weights: which changes keep the joint tensor depends on all heads",
    "shift": "not linear in the weights: the change of the next bias depends on other weights",
}


@dataclass(frozen=True)
class SymmetryRow:
    """One piece of the symmetries: what it is, what it adds to the fiber, what it conserves.

    `dimension` is counted beyond the pieces before, as in `segre dim`; it may be zero for a
    piece that is listed for what it conserves. Exactly one of `conserved` and `reason` is None.
    """

    kind: str
    name: str
    where: str
    layer: int
    head: int | None
    group: str
    dimension: int
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
        """The row as plain data, for JSON."""
        return {
            "kind": self.kind,
            "name": self.name,
            "where": self.where,
            "layer": self.layer,
            "head": self.head,
            "group": self.group,
            "dimension": self.dimension,
            "conserved": self.formula,
            "count": self.count,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class SymmetryTable(Unbounded, Tabular):
    """All symmetries of an architecture and what each conserves.

    `independent` is the rank of the gradients of all conserved quantities together, at a random
    point mod p: at least that many are independent. It may be less than the sum of the counts, and
    is at most `dimension`, since gradients of conserved quantities are symmetries.
    """

    spec: Network | Polynomial
    rows: tuple[SymmetryRow, ...]
    independent: int
    seed: int = 0
    choices: tuple[Choice, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def dimension(self) -> int:
        """Dimension of the fiber that the symmetries explain."""
        return sum(row.dimension for row in self.rows)

    @property
    def value(self) -> int:
        """The dimension."""
        return self.dimension

    @property
    def status(self) -> Status:
        """The rank of the symmetries is exact."""
        return "exact"

    @property
    def how(self) -> str:
        """How it is known."""
        return "the rank of all symmetries together, at a random point mod p"

    def document(self) -> dict[str, Any]:
        """The table as plain data, for JSON."""
        return {
            "spec": str(self.spec),
            "digest": self.spec.digest,
            "parameters": self.spec.parameters,
            "dimension": self.dimension,
            "conserved": self.independent,
            "symmetries": [row.document() for row in self.rows],
            "choices": [choice.document() for choice in self.choices],
            **({"notes": list(self.notes)} if self.notes else {}),
            "seed": self.seed,
        }


def symmetry_table(
    spec: Source,
    seed: int = 0,
    *,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> SymmetryTable:
    """The symmetries of an architecture, counted at a random point, with what they conserve.

    >>> table = symmetry_table("lightning/d=4,4/a=2/t=3")
    >>> [(row.group, row.dimension, row.formula, row.count) for row in table.rows]
    [('GL(2)', 4, 'W_Q W_Q^T - W_K W_K^T', 3), ('GL(1)', 1, '|W_V|^2 - |W_Q|^2', 1)]
    >>> table.dimension, table.independent
    (5, 4)
    """
    net = architecture(spec)
    if not isinstance(net, Network | Polynomial) or (isinstance(net, Network) and not net.plain):
        raise UnsupportedError(
            f"spec {quote(str(net))}: conserved quantities are supported for stacks and "
            "polynomial networks; for the symmetries of transformers use segre explain"
        )
    require_memory(net, bytes_for_symmetries(net), memory)
    for attempt in range(_POINTS):
        try:
            return _table_at(Point.draw(net, seed, attempt), seed, memory, progress)
        except UnluckyError:
            continue
    raise UnluckyError(
        f"spec {str(net)!r}: none of {_POINTS} random points is usable; try another --seed"
    )


def _table_at(point: Point, seed: int, memory: int, progress: Progress) -> SymmetryTable:
    spec = point.spec
    assert isinstance(spec, Network | Polynomial)
    laws = {(law.kind, law.layer, law.head): law for law in conserved_quantities(spec)}
    counted = symmetry_rank(point, progress)
    dimensions = {(one.kind, one.layer, one.head): one.dimension for one in counted.pieces}
    space = Echelon(spec.parameters, point.field)
    rows = []
    for found in generators(point.field, spec, point.weights):
        piece = found.piece
        assert piece.layer is not None
        key = (piece.kind, piece.layer, piece.head)
        law = laws.get(key)
        if law is not None:
            space.add(gradients(point.field, spec, found))
        if law is None and key not in dimensions:
            continue
        row = SymmetryRow(
            kind=piece.kind,
            name=piece.name,
            where=piece.where,
            layer=piece.layer,
            head=piece.head,
            group=_group(spec, found),
            dimension=dimensions.get(key, 0),
            conserved=law,
            reason=_REASONS[piece.kind] if law is None else None,
        )
        rows.append(row)
    rows.sort(key=lambda row: (row.layer, row.kind == "between"))
    choices = tuple(choices_undone(spec, counted, seed, memory))
    return SymmetryTable(spec, tuple(rows), space.rank, seed, choices)


def gradients(field: Prime, spec: Network | Polynomial, found: Generators) -> Array:
    """Gradients of the piece's conserved quantity at the piece's point, one scalar per row.

    They are the generators X w with X symmetric: for GL(n) the sums of those of E_jk and E_kj
    (k <= j, the entry (j, k) of the quantity), for the skew part of scores the difference of
    dK = M Q and dQ = M K. Pieces without a conserved quantity have no rows.
    """
    piece, g = found.piece, found.rows
    assert piece.layer is not None
    if piece.kind in _REASONS:
        return g[:0]
    if piece.kind in ("silent-scores", "scales") or (
        piece.kind == "pooled-heads"
        and isinstance(spec, Network)
        and spec.layers[piece.layer - 1].dv is None
    ):
        return g
    if piece.kind == "skew-scores":
        return field.sub(g[0::2], g[1::2])
    n = isqrt(len(g))
    j, k = np.tril_indices(n)
    return field.add(g[j * n + k], g[k * n + j])


def _group(spec: Network | Polynomial, found: Generators) -> str:
    """The acting group, in words."""
    assert found.piece.layer is not None
    if isinstance(spec, Polynomial):
        units = spec.layers[found.piece.layer - 1].units
        return {"scales": f"GL(1)^{units}", "between": f"GL({units})", "shift": f"R^{units}"}[
            found.piece.kind
        ]
    layer = spec.layers[found.piece.layer - 1]
    head = layer
    match found.piece.kind:
        case "query-key":
            return f"GL({head.a})"
        case "skew-scores":
            return f"O({head.a},{head.a})"
        case "value-output":
            return f"GL({head.dv})"
        case "scale":
            return "GL(1)"
        case "between":
            return f"GL({layer.width_out})"
        case "mix-heads":
            return f"GL({head.heads})"
        case "pooled-heads" if head.dv is not None:
            return f"GL({head.heads * head.dv})"
        case "pooled-heads" | "silent-scores":
            return f"R^{len(found.rows)}"
    return "translations that depend on other weights"
