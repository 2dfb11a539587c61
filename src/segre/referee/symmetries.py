"""How many independent directions change nothing? Recounts the pieces of a certificate.

Section 7.3 of the document: every vector is held against every Jacobian row of the minor,
and the rank of the vectors is recomputed piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from flint import nmod_mat

from segre.referee.dimensions import Dimensions
from segre.referee.document import ListedPiece
from segre.referee.linear import Echelon, dense
from segre.referee.meter import RESIDUES, charge
from segre.referee.network import Point, Progress
from segre.referee.pieces import LATE, Piece, Pieces, Vector
from segre.referee.rejection import RejectionError
from segre.referee.spans import Spans

CHUNK_ENTRIES = 1 << 20


def check_symmetries(
    point: Point,
    dimensions: Dimensions,
    jacobian: nmod_mat,
    listed: Sequence[ListedPiece],
    progress: Progress,
) -> int:
    """Recompute all pieces, compare them with the listed ones, and return their rank."""
    remaining = iter(listed)
    rank = 0
    found = 0
    early = all(piece.kind != LATE for piece in listed)
    for piece in recount(point, dimensions, jacobian):
        if early and piece.kind == LATE:  # it is listed last, and adds to a rank of its own
            continue
        claimed = next(remaining, None)
        if claimed != piece:
            raise RejectionError(
                f"upper.pieces[{found}]: {_describe(claimed)} is listed, "
                f"recomputed is {_describe(piece)}"
            )
        found += 1
        rank += piece.dimension
        progress("symmetries", found, len(listed))
    if (claimed := next(remaining, None)) is not None:
        raise RejectionError(
            f"upper.pieces[{found}]: {_describe(claimed)} adds nothing to the rank"
        )
    return rank


def recount(point: Point, dimensions: Dimensions, jacobian: nmod_mat) -> Iterator[ListedPiece]:
    """The pieces of positive dimension at a point, checked against Jacobian rows."""
    columns = jacobian.transpose()
    span = Echelon()
    for piece in Pieces(point, dimensions, Spans.at(point, dimensions)):
        gain = 0
        for chunk in _chunks(piece.vectors, point):
            charge(RESIDUES.matmul(chunk.nrows(), chunk.ncols(), columns.ncols()))
            if chunk * columns:
                raise RejectionError(f"{_name(piece)}: a vector changes an output of the network")
            gain += span.add(chunk)
        if gain:
            yield ListedPiece(piece.kind, piece.layer, piece.head, gain)


def _chunks(vectors: Iterable[Vector], point: Point) -> Iterator[nmod_mat]:
    width = point.net.parameters
    source = iter(vectors)
    while batch := list(islice(source, max(1, CHUNK_ENTRIES // width))):
        charge(2 * sum(map(len, batch)) * RESIDUES.entry)
        yield dense(batch, len(batch), width, point.prime)


def _name(piece: Piece) -> str:
    head = "" if piece.head is None else f", head {piece.head}"
    return f"symmetry {piece.kind} of layer {piece.layer}{head}"


def _describe(piece: ListedPiece | None) -> str:
    if piece is None:
        return "nothing"
    head = "" if piece.head is None else f" head {piece.head}"
    return f"{piece.kind!r} layer {piece.layer}{head} dimension {piece.dimension}"
