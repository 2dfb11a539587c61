"""How many independent directions change nothing? Section P5: all pieces, recounted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from flint import nmod_mat

from segre.referee.document import ListedPiece
from segre.referee.linear import Echelon, dense, integers
from segre.referee.meter import RESIDUES, charge
from segre.referee.network import Progress
from segre.referee.polynomial.network import Point, Slot
from segre.referee.rejection import RejectionError

CHUNK_ENTRIES = 1 << 20
Vector = list[tuple[int, int]]


@dataclass(frozen=True)
class Piece:
    """A family of tangent vectors, drawn up only as they are read."""

    kind: str
    layer: int
    vectors: Iterable[Vector]


class Pieces:
    """All pieces at a point, in the order of the document."""

    def __init__(self, point: Point) -> None:
        self.spec, self.prime = point.spec, point.prime
        self.slots = {(slot.layer, slot.bias): slot for slot in point.slots}
        self.tables = {key: integers(table) for key, table in point.tables.items()}

    def __iter__(self) -> Iterator[Piece]:
        spec = self.spec
        for i in range(1, len(spec.layers)):
            if spec.degree > 1 or spec.convolutional:
                yield Piece("scales", i, self._scales(i))
            else:
                yield Piece("between", i, self._between(i))
            if spec.bias and spec.degree == 1:
                yield Piece("shift", i, self._shift(i))

    def _row(self, i: int, bias: bool, row: int, source: int) -> Vector:
        """Row `source` of the weights or biases of layer i, in the place of another row."""
        slot = self.slots[i, bias]
        start = slot.offset + row * slot.columns
        return list(enumerate(self.tables[i, bias][source], start))

    def _column(self, i: int, column: int, source: int, factor: int) -> Vector:
        """A multiple of column `source` of the weights of layer i, in the place of another."""
        slot, table = self.slots[i, False], self.tables[i, False]
        return [
            (slot.offset + row * slot.columns + column, factor * entries[source] % self.prime)
            for row, entries in enumerate(table)
        ]

    def _scales(self, i: int) -> Iterator[Vector]:
        degree, after = self.spec.degree, self.slots[i + 1, False]
        for q in range(self.slots[i, False].rows):
            vector = self._row(i, False, q, q)
            if self.spec.bias:
                vector += self._row(i, True, q, q)
            if self.spec.convolutional:
                filters = self.tables[i + 1, False][0]
                vector += [
                    (after.offset + m, -degree * entry % self.prime)
                    for m, entry in enumerate(filters)
                ]
            else:
                vector += self._column(i + 1, q, q, -degree)
            yield vector

    def _between(self, i: int) -> Iterator[Vector]:
        width = self.slots[i, False].rows
        for p in range(width):
            for q in range(width):
                vector = self._row(i, False, p, q)
                if self.spec.bias:
                    vector += self._row(i, True, p, q)
                yield vector + self._column(i + 1, q, p, -1)

    def _shift(self, i: int) -> Iterator[Vector]:
        own, after = self.slots[i, True], self.slots[i + 1, True]
        table = self.tables[i + 1, False]
        for q in range(own.rows):
            if self.spec.convolutional:
                moved = [-sum(table[0]) % self.prime]
            else:
                moved = [-row[q] % self.prime for row in table]
            yield [(own.offset + q, 1), *enumerate(moved, after.offset)]


def check_symmetries(
    point: Point, jacobian: nmod_mat, listed: Sequence[ListedPiece], progress: Progress
) -> int:
    """Recompute all pieces, compare them with the listed ones, and return their rank."""
    found = 0
    for found, piece in enumerate(recount(point, jacobian), start=1):
        claimed = listed[found - 1] if found <= len(listed) else None
        if claimed != piece:
            raise RejectionError(
                f"upper.pieces[{found - 1}]: {_describe(claimed)} is listed, recomputed is "
                f"{_describe(piece)}"
            )
        progress("symmetries", found, len(listed))
    if found < len(listed):
        raise RejectionError(
            f"upper.pieces[{found}]: {_describe(listed[found])} adds nothing to the rank"
        )
    return sum(piece.dimension for piece in listed)


def recount(point: Point, jacobian: nmod_mat) -> Iterator[ListedPiece]:
    """The pieces of positive dimension at a point, checked against Jacobian rows."""
    columns, span = jacobian.transpose(), Echelon()
    for piece in Pieces(point):
        gain = 0
        for chunk in _chunks(piece.vectors, point):
            charge(RESIDUES.matmul(chunk.nrows(), chunk.ncols(), columns.ncols()))
            if chunk * columns:
                raise RejectionError(
                    f"symmetry {piece.kind} of layer {piece.layer}: a vector changes an output of "
                    "the network"
                )
            gain += span.add(chunk)
        if gain:
            yield ListedPiece(piece.kind, piece.layer, None, gain)


def _chunks(vectors: Iterable[Vector], point: Point) -> Iterator[nmod_mat]:
    source = iter(vectors)
    while batch := list(islice(source, max(1, CHUNK_ENTRIES // point.parameters))):
        charge(2 * sum(map(len, batch)) * RESIDUES.entry)
        yield dense(batch, len(batch), point.parameters, point.prime)


def vector_counts(slots: Sequence[Slot], *, linear: bool, convolutional: bool) -> list[int]:
    """How many vectors each piece has."""
    return [
        count
        for slot in slots
        if slot.layer < slots[-1].layer
        for count in [slot.rows if slot.bias or convolutional or not linear else slot.rows**2]
        if linear or not slot.bias
    ]


def _describe(piece: ListedPiece | None) -> str:
    if piece is None:
        return "nothing"
    return f"{piece.kind!r} layer {piece.layer} dimension {piece.dimension}"
