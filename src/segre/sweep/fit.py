"""Which formula might the dimensions of a family have? A guess from a store, tested afresh.

A polynomial in the fields is solved for exactly, over the fractions, on the largest simple region
of rows on which there is one; its coefficients are to be integers; there are to be clearly more
rows than coefficients; no row of the region may contradict it, whether its bounds meet or not. If
a polynomial is right on most rows of a region and too large on the others, a max(0, .) term that
explains these as well is looked for. And it is to give the right dimension of fresh architectures,
larger than any in the store. Rows outside of the region are fitted again. A formula found this way
is a conjecture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

from segre.errors import SweepError
from segre.finding import Status, Unbounded
from segre.shown import Tabular
from segre.sweep.defect import Defect, Excess
from segre.sweep.expression import Expression
from segre.sweep.holdout import Source
from segre.sweep.known import Known
from segre.sweep.names import NUMBERED, with_entries
from segre.sweep.polynomial import Equations, Polynomial, interpolate, monomials, plus, times
from segre.sweep.region import Point, Region, regions
from segre.sweep.store import Row, Store
from segre.values import quote

DEGREE = 4
CUT_SHORT = "give fewer --fields, a smaller --degree or a --where to search all regions"
_PIECES = 4
_COEFFICIENTS = 250  # of a guess
_FEWEST = 8  # rows of a region
_WRONG = 12  # guesses that fresh architectures may refute before the search is given up
_REGIONS = 4_000  # to look at
_WORK = 4e9  # multiplications of one search, after which it is cut short: about 12 s
_DEFECTIVE = 12  # regions, the largest ones, on which a max(0, .) term is looked for
_DEFECTS = 4  # such terms to try on one region


@dataclass(frozen=True)
class Law:
    """A polynomial, less a max(0, .) of a few terms perhaps."""

    polynomial: Polynomial
    defect: Defect | None = None

    def value(self, point: Point) -> Fraction:
        """The value at a point."""
        found = self.polynomial.value(point)
        return found if self.defect is None else found - self.defect.value(point)

    def __str__(self) -> str:
        less = "" if self.defect is None else f" - {self.defect}"
        return f"{self.polynomial}{less}"


@dataclass(frozen=True)
class Fresh:
    """Architectures that are not in the store and agree with a law."""

    proved: tuple[str, ...]  # their dimension is proved
    ranked: tuple[str, ...]  # their exact rank agrees; the upper bound is larger
    allowed: tuple[str, ...]  # the law is between their bounds


@dataclass(frozen=True)
class LawPiece:
    """A law, where it holds, and how it fared."""

    law: Law
    region: Region
    otherwise: bool  # it is about what is outside of the regions before
    proved: int  # rows whose dimension is proved, and is that
    ranked: int  # rows whose exact rank is that, and whose upper bound is larger
    allowed: int  # rows between whose bounds it is
    tested: Fresh

    @property
    def polynomial(self) -> Polynomial:
        """The law without its max(0, .) term."""
        return self.law.polynomial

    @property
    def fresh(self) -> tuple[str, ...]:
        """Fresh architectures that have that dimension, proved or by their exact rank."""
        return self.tested.proved + self.tested.ranked

    @property
    def undecided(self) -> tuple[str, ...]:
        """Fresh architectures of which only bounds are known, that allow it."""
        return self.tested.allowed

    @property
    def rows(self) -> int:
        """All rows of the region: none contradicts it."""
        return self.proved + self.ranked + self.allowed

    @property
    def place(self) -> str:
        """The region in words."""
        if not self.otherwise:
            return str(self.region)
        return f"otherwise, {self.region}" if self.region.texts else "otherwise"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "dimension": str(self.law),
            "region": self.place,
            "rows": self.rows,
            "rows_proved": self.proved,
            "rows_by_rank": self.ranked,
            "rows_between_bounds": self.allowed,
            "coefficients": len(self.polynomial.terms),
            "told_apart": self.polynomial.rank,
            "fresh": list(self.fresh),
            "fresh_proved": list(self.tested.proved),
            "undecided": list(self.undecided),
        }


@dataclass(frozen=True)
class Fit(Unbounded, Tabular):
    """The formulas found in a store."""

    fields: tuple[str, ...]
    where: str | None
    pieces: tuple[LawPiece, ...]
    rows: int
    unproved: int  # rows among them whose bounds do not meet
    unknown: tuple[str, ...]  # rows without any bound
    left: tuple[str, ...]  # rows that no piece explains
    refuted: int  # guesses that fresh architectures refuted
    ranks: bool  # whether ranks found in balls were used as dimensions
    cut_short: bool  # not all regions were looked at

    @property
    def value(self) -> tuple[str, ...]:
        """The formulas, one for each region."""
        return tuple(str(piece.law) for piece in self.pieces)

    @property
    def status(self) -> Status:
        """A formula found this way is a conjecture."""
        return "fitted"

    @property
    def how(self) -> str:
        """How they were found."""
        return f"exact interpolation of {self.rows:,} rows, tested on new architectures"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        plain = {k: v for k, v in vars(self).items() if k != "pieces"}
        return {**plain, "pieces": [piece.document() for piece in self.pieces]}


@dataclass(frozen=True)
class _Known:
    """A row as the search sees it."""

    spec: str
    point: Point
    known: Known


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

    `fields` are the variables (by default all fields that vary); `where` restricts the rows;
    `rational` allows fractional coefficients; `degree` is the largest degree that is tried. Each
    formula is tested on so many `fresh` architectures. The exact rank mod p of a row counts as its
    dimension; with `ranks`, so does a rank found in ball arithmetic at a few real points.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.sweep.run import run
    >>> fields = {"layers": 1, "d": "2..9", "a": 1, "t": 2}
    >>> plan = {"kind": "lightning", "exhaustive": True, "compute": ["exact"], "fields": fields}
    >>> with TemporaryDirectory() as folder:
    ...     ran = run(plan, f"{folder}/widths.db", workers=1)
    ...     fit(f"{folder}/widths.db", fresh=1).value
    ('d**2 + 2*d - 2',)
    """
    with Store.open(path) as store:
        plan, rows = store.plan(), list(store.rows())
    only = None if where is None else Expression(where)
    asked = [row for row in rows if _meets(only, row.fields)]
    said = [(row, Known.of(row.lower, row.upper, row.evidence, ranks)) for row in asked]
    rows = [row for row, known in said if known is not None]
    if not any(known is not None and known.value is not None for _, known in said):
        raise SweepError(f"fit: no row of {quote(str(path))} has a known dimension")
    names = _variables(rows, fields)
    source = Source(plan, names, {row.digest for row in asked}, seed)
    search = _Search(names, only, degree, rational, ranks, source, fresh)
    every = [
        _Known(row.spec, _point(row.fields, names), known)
        for row, known in said
        if known is not None
    ]
    left, pieces = every, list[LawPiece]()
    while len(pieces) < _PIECES and (piece := search.piece(left)) is not None:
        pieces.append(piece)
        search.before.append(piece.region)
        left = [row for row in left if not piece.region.holds(row.point)]
    if not pieces:
        raise SweepError(
            f"fit: no polynomial of degree <= {degree} in {', '.join(names)} was found: "
            f"{search.reason(len(every))}"
        )
    return Fit(
        fields=tuple(names),
        where=where,
        pieces=tuple(pieces),
        rows=len(every),
        unproved=sum(not row.known.proved for row in every),
        unknown=tuple(row.spec for row, known in said if known is None),
        left=tuple(row.spec for row in left),
        refuted=search.refuted,
        ranks=ranks,
        cut_short=search.work > _WORK,
    )


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
        raise SweepError("fit: no field varies, so there is nothing to fit")
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
        source: Source,
        count: int,
    ) -> None:
        self.names, self.rational, self.ranks = names, rational, ranks
        sizes = [len(monomials(names, n)) for n in range(degree + 1)]
        self.degree = max(n for n, size in enumerate(sizes) if n == 0 or size <= _COEFFICIENTS)
        self.before: list[Region] = []
        self.refuted = 0
        self.work = 0
        self.fractions: Polynomial | None = None
        self._only, self._source, self._count = only, source, count

    def piece(self, rows: Sequence[_Known]) -> LawPiece | None:
        """The law on the largest region of these rows that fresh architectures confirm."""
        points = [row.point for row in rows]
        values = [row.known.value for row in rows]
        equations = Equations(self.names, self.degree, points, [value or 0 for value in values])
        wrong = defective = 0
        for region in islice(regions(self.names, points), _REGIONS):
            if region.size < _FEWEST or wrong == _WRONG:
                return None
            inside = [i for i in region.members() if values[i] is not None]
            if len(inside) < _FEWEST:
                continue
            here = [points[i] for i in inside], [values[i] or 0 for i in inside]
            if self.work > _WORK:
                return None
            before = equations.work
            solvable = equations.solvable(inside)
            self.work += equations.work - before
            if solvable:
                laws = iter([Law(found)] if (found := self._solve(*here)) is not None else [])
            elif defective < _DEFECTIVE:
                defective += 1
                laws = islice(self._with_defect(*here), _DEFECTS)
            else:
                continue
            for law in laws:
                if not _allowed(law, region, rows):
                    continue
                tested = self._test(law, region)
                if tested is not None:
                    return self._piece(law, region, rows, tested)
                wrong += 1
                self.refuted += 1
        return None

    def _piece(self, law: Law, region: Region, rows: Sequence[_Known], tested: Fresh) -> LawPiece:
        inside = [rows[i].known for i in region.members()]
        proved = sum(known.proved for known in inside)
        ranked = sum(known.value is not None for known in inside) - proved
        rest = len(inside) - proved - ranked
        return LawPiece(law, region, bool(self.before), proved, ranked, rest, tested)

    def _with_defect(self, points: Sequence[Point], values: Sequence[int]) -> Iterator[Law]:
        """A polynomial that is right for most and too large for the others, made right for all."""
        for found in self._lifted(points, values):
            over = [found.value(p) - v for p, v in zip(points, values, strict=True)]
            if 2 * over.count(Fraction(0)) < len(over) or any(x.denominator > 1 for x in over):
                continue
            for defect in Excess(self.names, points, [int(x) for x in over]).defects():
                yield Law(found, defect)

    def _lifted(self, points: Sequence[Point], values: Sequence[int]) -> Iterator[Polynomial]:
        """Polynomials that are linear in a field, from the one or two slices where it is smallest.

        Exceptions begin later: with the second or third head, not with the first.
        """
        for name in self.names:
            slices = []
            for c in sorted({point[name] for point in points})[:2]:
                inside = [i for i, point in enumerate(points) if point[name] == c]
                here = [points[i] for i in inside], [values[i] for i in inside]
                found = self._solve(*here, [other for other in self.names if other != name])
                slices.append((c, found))
            first, second = (*slices, (0, None))[:2]
            if first[1] is None:
                continue
            field = Polynomial({(name,): Fraction(1)}, 1)
            if first[0] == 1:
                yield times(field, first[1])
            if second[1] is not None:
                slope = Polynomial({(): Fraction(1, second[0] - first[0])}, 1)
                minus = Polynomial({(): Fraction(-1)}, 1)
                step = plus(field, Polynomial({(): Fraction(-first[0])}, 1))
                rise = times(times(slope, step), plus(second[1], times(minus, first[1])))
                yield plus(first[1], rise)

    def _solve(
        self, points: Sequence[Point], values: Sequence[int], names: Sequence[str] = ()
    ) -> Polynomial | None:
        for degree in range(self.degree + 1):
            found = interpolate(names or self.names, degree, points, values)
            if found is None:
                continue
            if len(points) < found.rank + max(4, found.rank // 2):
                return None  # as many coefficients as rows: any numbers would do
            if found.whole or self.rational:
                return found
            if not names:
                self.fractions = self.fractions or found
            return None
        return None

    def _test(self, law: Law, region: Region) -> Fresh | None:
        """Fresh architectures that agree; None if one contradicts it, or none tells."""
        proved: list[str] = []
        ranked: list[str] = []
        allowed: list[str] = []

        def wanted(fields: dict[str, Any]) -> bool:
            point = _point(fields, self.names)
            elsewhere = any(earlier.holds(point) for earlier in self.before)
            return region.holds(point) and not elsewhere and _meets(self._only, fields)

        for drawn in self._source.some(self._count, wanted):
            known = self._source.known(drawn, self.ranks)
            if known is None:
                continue
            if not known.allows(law.value(_point(drawn.fields, self.names))):
                return None
            kind = proved if known.proved else ranked if known.value is not None else allowed
            kind.append(str(drawn.spec))
        if not proved and not ranked:
            return None
        return Fresh(tuple(proved), tuple(ranked), tuple(allowed))

    def reason(self, rows: int) -> str:
        """Why nothing was found."""
        if self.work > _WORK:
            return f"the search was stopped early; {CUT_SHORT}"
        if self.fractions is not None:
            return f"the coefficients of {self.fractions} are not integers (try --rational)"
        if self.refuted:
            return f"{self.refuted} candidates were refuted by new architectures"
        needed = len(monomials(self.names, 1)) + _FEWEST
        if rows < needed:
            return f"{rows} rows are not enough"
        return f"none agrees with a region of the {rows} rows, or there are too few rows"


def _allowed(law: Law, region: Region, rows: Sequence[_Known]) -> bool:
    """Whether no row of a region contradicts a law."""
    inside = (rows[i] for i in region.members())
    return all(row.known.allows(law.value(row.point)) for row in inside)
