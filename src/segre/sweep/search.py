"""On which region does which formula hold? The search, and its tests on fresh architectures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

from segre.sweep.defect import Excess
from segre.sweep.expression import Expression
from segre.sweep.holdout import Source
from segre.sweep.known import Known
from segre.sweep.law import Fresh, Law, LawPiece
from segre.sweep.names import with_entries
from segre.sweep.polynomial import Equations, Polynomial, interpolate, monomials, plus, times
from segre.sweep.region import Point, Region, regions

CUT_SHORT = "give fewer --fields, a smaller --degree or a --where to search all regions"
_COEFFICIENTS = 250  # of a guess
_FEWEST = 8  # rows of a region
_WRONG = 12  # guesses that fresh architectures may refute before the search is given up
_REGIONS = 4_000  # to look at
_WORK = 4e9  # multiplications of one search, after which it is cut short: about 12 s
_DEFECTIVE = 12  # regions, the largest ones, on which a max(0, .) term is looked for
_DEFECTS = 4  # such terms to try on one region


@dataclass(frozen=True)
class KnownRow:
    """The part of a row that the search uses."""

    spec: str
    point: Point
    known: Known


def meets(only: Expression | None, fields: Mapping[str, Any]) -> bool:
    """Whether the fields of an architecture satisfy a condition, if there is one."""
    return only is None or only.holds(with_entries(fields))


def point_of(fields: Mapping[str, Any], names: Sequence[str]) -> Point:
    """The values of some fields."""
    known = with_entries(fields)
    return {name: known[name] for name in names}


class Search:
    """Finds laws, one region after the other."""

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

    def piece(self, rows: Sequence[KnownRow]) -> LawPiece | None:
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
            if self.cut_short:
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

    def _piece(self, law: Law, region: Region, rows: Sequence[KnownRow], tested: Fresh) -> LawPiece:
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
            point = point_of(fields, self.names)
            elsewhere = any(earlier.holds(point) for earlier in self.before)
            return region.holds(point) and not elsewhere and meets(self._only, fields)

        for drawn in self._source.some(self._count, wanted):
            known = self._source.known(drawn, self.ranks)
            if known is None:
                continue
            if not known.allows(law.value(point_of(drawn.fields, self.names))):
                return None
            kind = proved if known.proved else ranked if known.value is not None else allowed
            kind.append(str(drawn.spec))
        if not proved and not ranked:
            return None
        return Fresh(tuple(proved), tuple(ranked), tuple(allowed))

    @property
    def cut_short(self) -> bool:
        """Whether it was given up before all regions were looked at."""
        return self.work > _WORK

    def reason(self, rows: int) -> str:
        """Why nothing was found."""
        if self.cut_short:
            return f"the search was stopped early; {CUT_SHORT}"
        if self.fractions is not None:
            return f"the coefficients of {self.fractions} are not integers (try --rational)"
        if self.refuted:
            return f"{self.refuted} candidates were refuted by new architectures"
        needed = len(monomials(self.names, 1)) + _FEWEST
        if rows < needed:
            return f"{rows} rows are not enough"
        return f"none agrees with a region of the {rows} rows, or there are too few rows"


def _allowed(law: Law, region: Region, rows: Sequence[KnownRow]) -> bool:
    """Whether no row of a region contradicts a law."""
    inside = (rows[i] for i in region.members())
    return all(row.known.allows(law.value(row.point)) for row in inside)
