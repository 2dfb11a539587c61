"""The rank of the Jacobian, and of the symmetries, at one random point mod p."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod

import numpy as np

from segre.errors import UnluckyError
from segre.fields.interface import Array
from segre.fields.profile import new_rows
from segre.fields.rank import Echelon
from segre.finding import Bound, Evidence, Symmetry
from segre.geometry.gauge.all import pieces
from segre.geometry.gauge.piece import Weights
from segre.geometry.independence import only_in_balls
from segre.geometry.memory import inputs_at_once
from segre.geometry.point import FEW_PARAMETERS, Point
from segre.geometry.progress import Progress, quiet
from segre.geometry.symmetry import Generators
from segre.spec import Network
from segre.transformer.spec import Transformer

_PATIENCE = 4
_ROWS_AT_ONCE = 256


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

    Each was seen to lie in the kernel of the Jacobian at some inputs. That is a guard, not part of
    the proof. `rooted`: all square roots exist mod p at these inputs, and were not drawn.
    """

    pieces: tuple[CountedPiece, ...]
    rooted: bool = True

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
        statement += f"{parameters} parameters, {'checked' if one else 'each checked'} to lie in "
        statement += "the kernel of the Jacobian"
        return Bound(parameters - self.rank, Evidence("symmetries", statement))


@dataclass(frozen=True)
class _Family:
    """A piece of either kind of architecture: who it is, in words, and its generators."""

    kind: str
    layer: int | None
    head: int | None
    symmetry: Symmetry  # with a dimension that is still to be counted
    generators: Array


def _families(point: Point) -> Iterator[_Family]:
    spec = point.spec
    if isinstance(spec, Transformer):
        weights = Weights(point.field, spec, point.weights)
        for piece in pieces(spec):
            symmetry = Symmetry(piece.name, piece.where, 0, piece.group, piece.holds)
            generators = point.field.reduce(piece.build(weights))
            yield _Family(piece.kind, None, None, symmetry, generators)
        return
    assert isinstance(spec, Network)
    for own in Generators(point.field, spec, point.weights).pieces():
        where = place(spec, own.kind, own.layer, own.head)
        symmetry = Symmetry(own.name, where, 0)
        yield _Family(own.kind, own.layer, own.head, symmetry, own.generators)


def symmetry_rank(point: Point, progress: Progress = quiet) -> SymmetryRank:
    """The rank of all symmetry generators, each checked to be in the kernel of the Jacobian."""
    check, rooted = _kernel_check(point)
    count = _gains_at_once if point.spec.parameters <= FEW_PARAMETERS else _gains
    counted = tuple(
        CountedPiece(own.kind, own.layer, own.head, replace(own.symmetry, dimension=gained))
        for own, gained in count(point, check, progress)
        if gained
    )
    return SymmetryRank(counted, rooted)


def _gains(point: Point, check: Array, progress: Progress) -> Iterator[tuple[_Family, int]]:
    """The families, and what each adds to the rank of those before it."""
    space = Echelon(point.spec.parameters, point.field)
    for family in _families(point):
        _require_in_kernel(point, [family], family.generators, check)
        gained = sum(
            space.add(family.generators[start : start + _ROWS_AT_ONCE])
            for start in range(0, len(family.generators), _ROWS_AT_ONCE)
        )
        yield family, gained
        progress("rank of symmetries", space.rank, point.spec.parameters)


def _gains_at_once(point: Point, check: Array, progress: Progress) -> Iterator[tuple[_Family, int]]:
    """The same in one elimination, for small networks: most of their time would be calls."""
    families = list(_families(point))
    if not families:
        return
    generators = np.concatenate([family.generators for family in families])
    _require_in_kernel(point, families, generators, check)
    ends = np.cumsum([len(family.generators) for family in families])
    new = new_rows(generators, point.field)
    gained = np.diff(np.searchsorted(new, ends), prepend=0).tolist()
    yield from zip(families, gained, strict=True)
    progress("rank of symmetries", len(new), point.spec.parameters)


def _require_in_kernel(
    point: Point, families: Sequence[_Family], generators: Array, check: Array
) -> None:
    """Stop if a generator, of the families one after the other, changes the function."""
    changes = point.field.matmul(generators, check).any(axis=1)
    if not changes.any():
        return
    ends = np.cumsum([len(family.generators) for family in families])
    symmetry = families[int(np.searchsorted(ends, changes.argmax(), side="right"))].symmetry
    raise AssertionError(
        f"{point.spec}: {symmetry.name}, {symmetry.where}, changes the function; this is a bug in "
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
            if not isinstance(point.spec, Transformer):
                raise
    return point.jacobian_rows(point.inputs_with_free_roots).T, False


def place(spec: Network, kind: str, layer: int, head: int | None) -> str:
    """Where a piece acts, in words; a lone head is not mentioned."""
    if kind == "between":
        return f"between layers {layer} and {layer + 1}"
    several = spec.layers[layer - 1].attention.heads > 1
    return f"layer {layer}" + (f", head {head}" if several and head is not None else "")
