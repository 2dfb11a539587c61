"""The rank of the Jacobian, and of the symmetries, at one random point mod p."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

import numpy as np

from segre.errors import UnluckyError
from segre.fields.interface import Array
from segre.fields.profile import new_rows
from segre.fields.rank import Echelon
from segre.finding import Bound, Evidence, Symmetry
from segre.geometry.independence import only_in_balls
from segre.geometry.memory import inputs_at_once
from segre.geometry.point import FEW_PARAMETERS, Point
from segre.geometry.progress import Progress, quiet
from segre.symmetry.all import generators, pieces
from segre.symmetry.piece import ModularWeights, Piece

_PATIENCE = 4
_ROWS_AT_ONCE = 256
_STAGE = "Jacobian rank so far"


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

    A rank above `at_most` would be a mistake in an upper bound, so this is checked. If an input
    adds nothing to the row space at generic weights, no input does, except for accidents mod p;
    hence several inputs, with all their outputs, are tried. While the rank grows, only slightly
    more outputs of an input are used than the last input could contribute.
    """
    spec = point.spec
    outputs = prod(spec.output_shape)
    space = Echelon(spec.parameters, point.field, capacity=at_most)
    limit = inputs_at_once(spec)
    fed: list[tuple[int, int]] = []  # which (input, output) every row fed so far was
    seen = idle = 0
    wanted, asked = point.first_inputs, outputs
    while idle < (1 if space.rank == at_most else _PATIENCE):
        count = min(wanted, limit) if seen else point.first_inputs
        chosen = _spread(asked, outputs)
        rows = point.rows_at(seen, count, chosen) if seen else point.first_rows
        fed += product(range(seen, seen + count), chosen.tolist())
        last = (count - 1) * asked
        for start in range(0, last, _ROWS_AT_ONCE):
            space.add(rows[start : min(start + _ROWS_AT_ONCE, last)])
            progress(_STAGE, space.rank, at_most)
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
        progress(_STAGE, space.rank, at_most)
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
    layer: int | None
    head: int | None
    symmetry: Symmetry

    @property
    def dimension(self) -> int:
        """The dimensions it adds."""
        return self.symmetry.dimension


@dataclass(frozen=True)
class SymmetryRank:
    """How many independent symmetries there are at a point, piece by piece.

    If `checked`, each lies in the kernel of the Jacobian at some inputs. This is a safeguard, not
    part of the proof. `rooted`: all square roots exist mod p at these inputs, and were not drawn.
    """

    pieces: tuple[CountedPiece, ...]
    rooted: bool = True
    checked: bool = True

    @property
    def rank(self) -> int:
        """Dimension of the fiber directions that the symmetries explain."""
        return sum(piece.dimension for piece in self.pieces)

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """The pieces in words, first layer first."""
        order = sorted(self.pieces, key=lambda piece: (piece.layer or 0, piece.kind == "between"))
        return tuple(piece.symmetry for piece in order)

    def bound(self, parameters: int) -> Bound:
        """The upper bound on the dimension that they give."""
        one = self.rank == 1
        statement = f"{self.rank} {'symmetry' if one else 'independent symmetries'} of "
        statement += f"{parameters} parameters"
        if self.checked:
            statement += f", {'checked' if one else 'each checked'} to lie in the kernel of the "
            statement += "Jacobian"
        else:
            statement += "; their rank was computed at a random point"
        return Bound(parameters - self.rank, Evidence("symmetries", statement))


def symmetry_rank(
    point: Point, progress: Progress = quiet, *, checked: bool = True
) -> SymmetryRank:
    """The rank of all symmetry generators, each checked to be in the kernel of the Jacobian.

    Not `checked`, it needs no Jacobian, and hence as much time for many tokens as for few.
    """
    check, rooted = _kernel_check(point) if checked else (None, True)
    count = _gains_at_once if point.spec.parameters <= FEW_PARAMETERS else _gains
    counted = tuple(
        CountedPiece(own.kind, own.layer, own.head, own.symmetry(gained))
        for own, gained in count(point, check, progress)
        if gained
    )
    return SymmetryRank(counted, rooted, checked)


def _gains(point: Point, check: Array | None, progress: Progress) -> Iterator[tuple[Piece, int]]:
    """The pieces, and what each adds to the rank of those before it."""
    space = Echelon(point.spec.parameters, point.field)
    total = sum(1 for _ in pieces(point.spec))
    for done, found in enumerate(generators(point.field, point.spec, point.weights), 1):
        rows = found.rows
        if check is not None:
            watched = point.hard_rows.T if found.piece.hard else check
            _require_in_kernel(point, [found.piece], [len(rows)], rows, watched)
        gained = sum(
            space.add(rows[start : start + _ROWS_AT_ONCE])
            for start in range(0, len(rows), _ROWS_AT_ONCE)
        )
        yield found.piece, gained
        progress("checking symmetries", done, total)


def _gains_at_once(
    point: Point, check: Array | None, progress: Progress
) -> Iterator[tuple[Piece, int]]:
    """The same in one elimination, which is faster for small networks."""
    every = list(pieces(point.spec))
    if not every:
        return
    weights = ModularWeights(point.field, point.spec, point.weights)
    built = [piece.build(weights) for piece in every]
    rows = point.field.reduce(np.concatenate(built))
    ends = np.cumsum([len(own) for own in built]).tolist()
    if check is not None:
        soft = np.repeat([not piece.hard for piece in every], [len(own) for own in built])
        _require_in_kernel(point, every, ends, rows * soft[:, None], check)
        if not soft.all():
            _require_in_kernel(point, every, ends, rows * ~soft[:, None], point.hard_rows.T)
    new = new_rows(rows, point.field)
    gained = np.diff(np.searchsorted(new, ends), prepend=0).tolist()
    yield from zip(every, gained, strict=True)
    progress("checking symmetries", len(every), len(every))


def _require_in_kernel(
    point: Point, every: Sequence[Piece], ends: Sequence[int], rows: Array, check: Array
) -> None:
    """Stop if a generator changes the function; those of a piece end where `ends` says."""
    changes = point.field.matmul(rows, check).any(axis=1)
    if not changes.any():
        return
    piece = every[int(np.searchsorted(ends, changes.argmax(), side="right"))]
    raise AssertionError(
        f"{point.spec}: {piece.name}, {piece.where}, changes the function; this is a bug in "
        "segre, please report it"
    )


def _kernel_check(point: Point) -> tuple[Array, bool]:
    """Columns that symmetries are orthogonal to, and whether all roots exist mod p there.

    Roots that nothing else needs, or that do not exist, are drawn.
    """
    if only_in_balls(point.spec) is None:
        try:
            return point.first_rows.T, True
        except UnluckyError:
            if not point.spec.salted:
                raise
    return point.jacobian_rows(point.inputs_with_free_roots).T, False
