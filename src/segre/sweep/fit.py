"""Which formula might the dimensions of a family have? A guess from a store, tested afresh.

A polynomial in the fields is solved for exactly, over the fractions, on the largest simple region
of rows on which there is one; its coefficients are to be integers; there are to be clearly more
rows than coefficients; and it is to give the right dimension of fresh architectures, larger than
any in the store. Rows outside of the region are fitted again. A formula found is a conjecture.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segre.errors import SweepError
from segre.sweep.draw import Drawn, architectures
from segre.sweep.expression import Expression
from segre.sweep.names import NUMBERED, with_entries
from segre.sweep.plan import SPECS, Plan
from segre.sweep.polynomial import Polynomial, interpolate, monomials
from segre.sweep.region import Point, Region, regions
from segre.sweep.store import Row, Store
from segre.sweep.task import bytes_needed, solve
from segre.values import quote

DEGREE = 4
_PIECES = 4
_COEFFICIENTS = 250  # of a guess
_FEWEST = 8  # rows of a region
_BEYOND = 2  # how far past the largest values of the store fresh architectures go
_WRONG = 12  # guesses that fresh architectures may refute before the search is given up
_LOOKED_AT = 20_000  # draws while looking for fresh ones
_PARAMETERS = 1_500  # of a fresh architecture, so that testing takes seconds
_MEMORY = 2 << 30


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
    search = _Search(plan, names, only, degree, rational, ranks, fresh, seed)
    search.known = {row.digest for row in rows}
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
        plan: Plan,
        names: list[str],
        only: Expression | None,
        degree: int,
        rational: bool,
        ranks: bool,
        fresh: int,
        seed: int,
    ) -> None:
        self.names, self.degree, self.rational, self.ranks = names, degree, rational, ranks
        self.known: set[str] = set()
        self.before: list[Region] = []
        self.refuted = 0
        self.fractions: Polynomial | None = None
        self._plan, self._only, self._fresh, self._seed = plan, only, fresh, seed
        self._answers: dict[str, dict[str, Any]] = {}
        self._drawn: list[Drawn] = []
        self._source: Iterator[Drawn] | None = None

    def piece(self, rows: Sequence[Row]) -> Piece | None:
        """The polynomial on the largest region of these rows that fresh architectures confirm."""
        points = [_point(row.fields, self.names) for row in rows]
        values = [_dimension(row, self.ranks) or 0 for row in rows]
        wrong = 0
        for region in regions(self.names, points):
            if region.size < _FEWEST or wrong == _WRONG:
                return None
            inside = region.members()
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
            if len(monomials(self.names, degree)) > _COEFFICIENTS:
                return None
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
        for drawn in self._fresh_ones(region):
            expected = found.value(_point(drawn.fields, self.names))
            answer = self._answer(drawn)
            low, high = answer["lower"], answer["upper"]
            if low is None or high is None:
                continue
            if expected != low if self.ranks else not low <= expected <= high:
                return None
            (right if self.ranks or low == high else open_).append(str(drawn.spec))
        return (tuple(right), tuple(open_)) if right else None

    def _answer(self, drawn: Drawn) -> dict[str, Any]:
        digest = drawn.spec.digest
        if digest not in self._answers:
            task = {
                "digest": digest,
                "document": drawn.spec.document(),
                "compute": ["exact"],
                "seed": self._seed + 1,
                "memory": _MEMORY,
            }
            self._answers[digest] = solve(task)
        return self._answers[digest]

    def _fresh_ones(self, region: Region) -> Iterator[Drawn]:
        """Architectures of the region, not in the store, some beyond its largest values."""
        count = 0
        for drawn in self._all_fresh():
            point = _point(drawn.fields, self.names)
            if region.holds(point) and not any(earlier.holds(point) for earlier in self.before):
                yield drawn
                count += 1
                if count == self._fresh:
                    return

    def _all_fresh(self) -> Iterator[Drawn]:
        yield from self._drawn
        if self._source is None:
            self._source = self._draw_fresh()
        for drawn in self._source:
            self._drawn.append(drawn)
            yield drawn

    def _draw_fresh(self) -> Iterator[Drawn]:
        try:
            for looked_at, drawn in enumerate(architectures(self._wider())):
                if looked_at == _LOOKED_AT:
                    return
                spec = drawn.spec
                small = spec.parameters <= _PARAMETERS and bytes_needed(spec, ["exact"]) <= _MEMORY
                if small and spec.digest not in self.known and _meets(self._only, drawn.fields):
                    yield drawn
        except SweepError:
            return  # no more of them

    def _wider(self) -> Plan:
        """The plan with ranges that go on, drawn with another seed."""
        stems = {name: name.rstrip("0123456789") for name in self.names}
        varied = {stem if stem in NUMBERED else name for name, stem in stems.items()}
        varied |= {"layers"} if "l" in varied else set()
        fields = dict(self._plan.given["fields"])
        for key, choice in self._plan.choices.items():
            values = list(choice.values)
            if key in varied and len(values) > 1 and all(type(v) is int for v in values):
                values += range(max(values) + 1, max(values) + 1 + _BEYOND)
                fields[key] = {"each": values} if choice.each else values
        given = {k: v for k, v in self._plan.given.items() if k not in {"exhaustive", "claim"}}
        seed = random.Random(self._seed + self._plan.seed + 1).getrandbits(62)
        return Plan.from_mapping({**given, "fields": fields, "draw": SPECS, "seed": seed})

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
