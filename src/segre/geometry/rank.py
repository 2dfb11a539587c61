"""The rank of the Jacobian, and of the symmetries, at one random point mod p."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

import numpy as np

from segre.fields.interface import Array
from segre.fields.rank import Echelon
from segre.finding import Symmetry
from segre.geometry.memory import inputs_at_once
from segre.geometry.point import Point
from segre.geometry.symmetry import Generators
from segre.spec import Network

Progress = Callable[[str, int, int], None]

_PATIENCE = 4
_ROWS_AT_ONCE = 256


def quiet(_stage: str, _done: int, _total: int) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True)
class JacobianRank:
    """A non-zero minor of the Jacobian: its rows (input, output entry) and its columns."""

    rows: list[tuple[int, int]]
    columns: list[int]

    @property
    def rank(self) -> int:
        """The size of the minor."""
        return len(self.columns)

    @property
    def inputs(self) -> int:
        """How many inputs its rows come from."""
        return len({n for n, _ in self.rows})


def jacobian_rank(point: Point, at_most: int, progress: Progress = quiet) -> JacobianRank:
    """Add inputs until the rank is `at_most` and one more adds nothing, or several add nothing.

    A rank above `at_most` would be a mistake in an upper bound, so it is looked for. An input that
    adds nothing to the row space at generic weights means that no input does, but for accidents
    mod p; hence several, with all their outputs. While the rank grows, an input is asked for little
    more outputs than the last one could use.
    """
    spec = point.spec
    outputs = spec.widths[-1] * spec.t
    space = Echelon(spec.parameters, point.field, capacity=at_most)
    limit = inputs_at_once(spec)
    fed: list[tuple[int, int]] = []  # which (input, output) every row fed so far was
    seen = idle = 0
    wanted, asked = point.first_inputs, outputs
    while idle < (1 if space.rank == at_most else _PATIENCE):
        count = min(wanted, limit) if seen else point.first_inputs
        chosen = _spread(asked, outputs)
        rows = point.jacobian_rows(seen, count, chosen) if seen else point.first_rows
        fed += [(n, int(o)) for n in range(seen, seen + count) for o in chosen]
        last = (count - 1) * asked
        for start in range(0, last, _ROWS_AT_ONCE):
            space.add(rows[start : min(start + _ROWS_AT_ONCE, last)])
        gained = space.add(rows[last:])
        seen += count
        if space.rank > at_most:
            raise AssertionError(
                f"{spec}: the Jacobian has a rank above the upper bound {at_most}; this is a bug "
                "in segre, please report it"
            )
        if gained:
            # as many inputs as are missing at the rate of the last one, and one to see that it
            # adds nothing; but not many more at once than there were
            idle, wanted = 0, min(-(-(at_most - space.rank) // gained), seen) + 1
            asked = min(outputs, 2 * asked if gained == asked else gained + gained // 4 + 2)
        else:
            idle, wanted = idle + (asked == outputs or space.rank == at_most), 1
            asked = outputs
        progress("Jacobian rank mod p", space.rank, at_most)
    return JacobianRank([fed[row] for row in space.pivot_rows], space.pivot_columns)


def _spread(count: int, outputs: int) -> Array:
    """`count` of the output entries, far from each other in both rows and columns."""
    step = max(1, round(0.618 * outputs))
    while gcd(step, outputs) > 1:
        step += 1
    return np.sort(np.arange(count) * step % outputs)


@dataclass(frozen=True)
class CountedPiece:
    """A piece of the symmetries and how many dimensions it adds to the pieces before it."""

    kind: str
    layer: int
    head: int | None
    symmetry: Symmetry

    @property
    def dimension(self) -> int:
        """The dimensions it adds."""
        return self.symmetry.dimension


@dataclass(frozen=True)
class SymmetryRank:
    """How many independent symmetries there are at a point, piece by piece."""

    pieces: tuple[CountedPiece, ...]

    @property
    def rank(self) -> int:
        """Dimension of the fiber directions that the symmetries explain."""
        return sum(piece.dimension for piece in self.pieces)

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """The pieces in words, first layer first."""
        order = sorted(self.pieces, key=lambda piece: (piece.layer, piece.kind == "between"))
        return tuple(piece.symmetry for piece in order)


def symmetry_rank(point: Point, progress: Progress = quiet) -> SymmetryRank:
    """The rank of all symmetry generators, each checked to be in the kernel of the Jacobian."""
    P = point.spec.parameters
    space = Echelon(P, point.field)
    check = point.first_rows.T
    pieces: list[CountedPiece] = []
    for piece in Generators(point.field, point.spec, point.weights).pieces():
        if point.field.matmul(piece.generators, check).any():
            raise AssertionError(
                f"{point.spec}: {piece.name} of layer {piece.layer} changes the function; "
                "this is a bug in segre, please report it"
            )
        gained = sum(
            space.add(piece.generators[start : start + _ROWS_AT_ONCE])
            for start in range(0, len(piece.generators), _ROWS_AT_ONCE)
        )
        if gained:
            where = place(point.spec, piece.kind, piece.layer, piece.head)
            symmetry = Symmetry(piece.name, where, gained)
            pieces.append(CountedPiece(piece.kind, piece.layer, piece.head, symmetry))
        progress("rank of symmetries", space.rank, P)
    return SymmetryRank(tuple(pieces))


def place(spec: Network, kind: str, layer: int, head: int | None) -> str:
    """Where a piece acts, in words; a lone head is not mentioned."""
    if kind == "between":
        return f"between layers {layer} and {layer + 1}"
    several = spec.layers[layer - 1].attention.heads > 1
    return f"layer {layer}" + (f", head {head}" if several and head is not None else "")
