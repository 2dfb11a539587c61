"""The rank of the Jacobian, and of the symmetries, at one random point mod p."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from segre.fields.interface import Array
from segre.fields.rank import Echelon
from segre.finding import Symmetry
from segre.geometry.memory import inputs_at_once
from segre.geometry.point import Point
from segre.geometry.symmetry import Generators

Progress = Callable[[str, int, int], None]

_PATIENCE = 4
_ROWS_AT_ONCE = 256


def quiet(_stage: str, _done: int, _total: int) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True)
class JacobianRank:
    """A non-zero minor of the Jacobian: its rows (input, output entry) and its columns."""

    inputs: int
    rows: list[tuple[int, int]]
    columns: list[int]

    @property
    def rank(self) -> int:
        """The size of the minor."""
        return len(self.columns)


def jacobian_rank(point: Point, at_most: int, progress: Progress = quiet) -> JacobianRank:
    """Add inputs until the rank is `at_most`, or several more inputs add nothing.

    An input that adds nothing to the row space at generic weights means that no input does,
    but for accidents mod p; hence several.
    """
    spec = point.spec
    outputs = spec.widths[-1] * spec.t
    space = Echelon(spec.parameters, point.field, capacity=at_most)
    limit = inputs_at_once(spec)
    seen = idle = 0
    wanted = -(-at_most // outputs) + 1
    while space.rank < at_most and idle < _PATIENCE:
        count = min(wanted, limit)
        rows = point.jacobian_rows(seen, count)
        for start in range(0, (count - 1) * outputs, _ROWS_AT_ONCE):
            space.add(rows[start : min(start + _ROWS_AT_ONCE, (count - 1) * outputs)])
        gained = space.add(rows[(count - 1) * outputs :])
        seen += count
        idle = 0 if gained else idle + 1
        # as many inputs as are missing at the rate of the last one, but at most as many again
        wanted = min(-(-(at_most - space.rank) // gained), seen) if gained else 1
        progress("Jacobian rank mod p", space.rank, at_most)
    return JacobianRank(
        seen, [divmod(row, outputs) for row in space.pivot_rows], space.pivot_columns
    )


@dataclass(frozen=True)
class SymmetryRank:
    """How many independent symmetries there are at a point, piece by piece."""

    kinds: tuple[tuple[str, Symmetry], ...]

    @property
    def rank(self) -> int:
        """Dimension of the fiber directions that the symmetries explain."""
        return sum(symmetry.dimension for _, symmetry in self.kinds)

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """The pieces that added dimensions, first layer first."""
        return tuple(symmetry for _, symmetry in self.kinds if symmetry.dimension)


def symmetry_rank(point: Point, progress: Progress = quiet) -> SymmetryRank:
    """The rank of all symmetry generators, each checked to be in the kernel of the Jacobian."""
    P = point.spec.parameters
    space = Echelon(P, point.field)
    check = point.jacobian_rows(0, 1).T
    kinds: list[tuple[str, Symmetry]] = []
    for piece in Generators(point.field, point.spec, point.weights).pieces():
        if point.field.matmul(piece.generators, check).any():
            raise AssertionError(
                f"{point.spec}: {piece.name} ({piece.where}) changes the function; this is a "
                "bug in segre, please report it"
            )
        gained = sum(
            space.add(piece.generators[start : start + _ROWS_AT_ONCE])
            for start in range(0, len(piece.generators), _ROWS_AT_ONCE)
        )
        kinds.append((piece.kind, Symmetry(piece.name, piece.where, gained)))
        progress("rank of symmetries", space.rank, P)
    return SymmetryRank(tuple(reversed(kinds)))
