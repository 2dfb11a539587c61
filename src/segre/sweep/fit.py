"""Which formula might the dimensions of a family have? A guess from a store, tested afresh.

A polynomial in the fields is solved for exactly, over the fractions, on the largest simple region
of rows on which there is one; its coefficients are to be integers; there are to be clearly more
rows than coefficients; and it is to give the right dimension of fresh architectures, larger than
any in the store. Rows outside of the region are fitted again. A formula found is a conjecture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from segre.errors import SweepError
from segre.sweep.expression import Expression
from segre.sweep.fresh import Fresh
from segre.sweep.names import NUMBERED, with_entries
from segre.sweep.polynomial import Equations, Polynomial, interpolate, monomials
from segre.sweep.region import Point, Region, regions
from segre.sweep.store import Row, Store
from segre.values import quote

DEGREE = 4
_PIECES = 4
_COEFFICIENTS = 250  # of a guess
_FEWEST = 8  # rows of a region
_WRONG = 12  # guesses that fresh architectures may refute before the search is given up
_REGIONS = 4_000  # to look at


@dataclass(frozen=True)
class Piece:
    """A polynomial, where it holds, and how it fared."""

    polynomial: Polynomial
    region: Region
    otherwise: bool  # it is about what is outside of the regions before
    rows: int
    fresh: tuple[str, ...]  # architectures not in the store, proved to have that dimension
    undecided: tuple[str, ...]  # that dimension is between their bounds

    @property
    def place(self) -> str:
        """The region in words."""
        if not self.otherwise:
            return str(self.region)
        return f"otherwise, {self.region}" if self.region.texts else "otherwise"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "dimension": str(self.polynomial),
            "region": self.place,
            "rows": self.rows,
            "coefficients": len(self.polynomial.terms),
            "told_apart": self.polynomial.rank,
            "fresh": list(self.fresh),
            "undecided": list(self.undecided),
        }


@dataclass(frozen=True)
class Fit:
    """What was found in a store."""

    fields: tuple[str, ...]
    where: str | None
    pieces: tuple[Piece, ...]
    rows: int
    unproved: int  # rows left out, as their dimension is not known
    left: tuple[str, ...]  # rows that no piece explains
    refuted: int  # guesses that fresh architectures refuted
    ranks: bool  # whether unproved ranks were used as dimensions

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        plain = {k: v for k, v in vars(self).items() if k != "pieces"}
        return {**plain, "pieces": [piece.document() for piece in self.pieces]}


def fit(
    path: str | Path,
    *,
    fields: Sequence[str] = (),
    where: str | None = None,
    degree: int = DEGREE,
    rational: bool = False,
    ranks: bool = False,
    fresh: int = 20,
    seed: int = 0,
) -> Fit:
    """Formulas for the dimensions in a store.

    `fields` are the variables (all that vary, by default); `where` restricts the rows;
    `rational` allows fractions as coefficients; with `ranks` the exact rank counts as the
    dimension where the bounds do not meet.
    """
    with Store.open(path) as store:
        plan, rows = store.plan(), list(store.rows())
    only = None if where is None else Expression(where)
    asked = [row for row in rows if _meets(only, row.fields)]
    rows = [row for row in asked if _dimension(row, ranks) is not None]
    if not rows:
        raise SweepError(f"fit: no row of {quote(str(path))} has a known dimension")
    names = _variables(rows, fields)
    source = Fresh(plan, names, {row.digest for row in rows}, seed)
    search = _Search(names, only, degree, rational, ranks, source, fresh)
    left, pieces = rows, list[Piece]()
    while len(pieces) < _PIECES and (piece := search.piece(left)) is not None:
        pieces.append(piece)
        search.before.append(piece.region)
        left = [row for row in left if not piece.region.holds(_point(row.fields, names))]
    if not pieces:
        raise SweepError(
            f"fit: no polynomial of degree <= {degree} in {', '.join(names)} was found: "
            f"{search.reason(len(rows))}"
        )
    unexplained = tuple(row.spec for row in left)
    return Fit(
        tuple(names),
        where,
        tuple(pieces),
        len(rows),
        len(asked) - len(rows),
        unexplained,
        search.refuted,
        ranks,
    )


def _dimension(row: Row, ranks: bool) -> int | None:
    return row.lower if ranks else row.dimension


def _meets(only: Expression | None, fields: Any) -> bool:
    return only is None or only.holds(with_entries(fields))


def _point(fields: Any, names: Sequence[str]) -> Point:
    known = with_entries(fields)
    return {name: known[name] for name in names}


def _variables(rows: Sequence[Row], asked: Sequence[str]) -> list[str]:
    """The fields that vary, without copies of one another."""
    points = [with_entries(row.fields) for row in rows]
    common = [n for n in points[0] if all(n in point for point in points) and n != "layers"]
    numeric = [n for n in common if all(type(point[n]) is int for point in points)]
    for name in asked:
        if name not in numeric:
            raise SweepError(
                f"fit: {quote(name)} is not a number in every row; allowed: {', '.join(numeric)}"
            )
    # of copies the first is kept: d rather than d0, d0 rather than a
    ordered = list(asked) or sorted(numeric, key=_order)
    columns: dict[tuple[int, ...], str] = {}
    for name in ordered:
        column = tuple(point[name] for point in points)
        if len(set(column)) > 1:
            columns.setdefault(column, name)
    if not columns:
        raise SweepError("fit: no field varies; there is nothing to fit")
    return list(columns.values())


def _order(name: str) -> tuple[int, bool, str]:
    stem = name.rstrip("0123456789")
    known = ("l", *NUMBERED)
    return known.index(stem) if stem in known else len(known), stem != name, name


class _Search:
    """Looks for one polynomial after the other."""

    def __init__(
        self,
        names: list[str],
        only: Expression | None,
        degree: int,
        rational: bool,
        ranks: bool,
        source: Fresh,
        count: int,
    ) -> None:
        self.names, self.rational, self.ranks = names, rational, ranks
        sizes = [len(monomials(names, n)) for n in range(degree + 1)]
        self.degree = max(n for n, size in enumerate(sizes) if n == 0 or size <= _COEFFICIENTS)
        self.before: list[Region] = []
        self.refuted = 0
        self.fractions: Polynomial | None = None
        self._only, self._source, self._count = only, source, count

    def piece(self, rows: Sequence[Row]) -> Piece | None:
        """The polynomial on the largest region of these rows that fresh architectures confirm."""
        points = [_point(row.fields, self.names) for row in rows]
        values = [_dimension(row, self.ranks) or 0 for row in rows]
        equations = Equations(self.names, self.degree, points, values)
        wrong = 0
        for region in islice(regions(self.names, points), _REGIONS):
            if region.size < _FEWEST or wrong == _WRONG:
                return None
            inside = region.members()
            if not equations.solvable(inside):
                continue
            found = self._solve([points[i] for i in inside], [values[i] for i in inside])
            if found is None:
                continue
            tested = self._test(found, region)
            if tested is not None:
                return Piece(found, region, bool(self.before), len(inside), *tested)
            wrong += 1
            self.refuted += 1
        return None

    def _solve(self, points: Sequence[Point], values: Sequence[int]) -> Polynomial | None:
        for degree in range(self.degree + 1):
            found = interpolate(self.names, degree, points, values)
            if found is None:
                continue
            if len(points) < found.rank + max(4, found.rank // 2):
                return None  # as many coefficients as rows: any numbers would do
            if found.whole or self.rational:
                return found
            self.fractions = self.fractions or found
            return None
        return None

    def _test(
        self, found: Polynomial, region: Region
    ) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Fresh architectures that have this dimension, and that may; None if one has not."""
        right: list[str] = []
        open_: list[str] = []

        def wanted(fields: dict[str, Any]) -> bool:
            point = _point(fields, self.names)
            elsewhere = any(earlier.holds(point) for earlier in self.before)
            return region.holds(point) and not elsewhere and _meets(self._only, fields)

        for drawn in self._source.some(self._count, wanted):
            expected = found.value(_point(drawn.fields, self.names))
            low, high = self._source.bounds(drawn)
            if low is None or high is None:
                continue
            if expected != low if self.ranks else not low <= expected <= high:
                return None
            (right if self.ranks or low == high else open_).append(str(drawn.spec))
        return (tuple(right), tuple(open_)) if right else None

    def reason(self, rows: int) -> str:
        """Why nothing was found."""
        if self.fractions is not None:
            return f"the coefficients of {self.fractions} are not integers (try --rational)"
        if self.refuted:
            return f"{self.refuted} guesses were refuted by fresh architectures"
        needed = len(monomials(self.names, 1)) + _FEWEST
        if rows < needed:
            return f"{rows} rows are not enough"
        return f"none agrees with a region of the {rows} rows, or the rows are not enough"
