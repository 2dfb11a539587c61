"""On which region does which formula hold? The search, and its tests on fresh architectures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

from segre.sweep.defect import defects
from segre.sweep.expression import Expression
from segre.sweep.holdout import Source
from segre.sweep.law import Agreeing, Known, Law, LawPiece
from segre.sweep.names import with_entries
from segre.sweep.polynomial import Equations, Polynomial, interpolate, monomials, through
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
    """Finds laws, one region after the other; each agrees with `count` fresh architectures."""

    def __init__(
        self,
        names: list[str],
        only: Expression | None,
        degree: int,
        rational: bool,
        source: Source,
        count: int,
    ) -> None:
        sizes = [len(monomials(names, n)) for n in range(degree + 1)]
        self.names, self.rational = names, rational
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
            members = region.members()
            inside = [i for i in members if values[i] is not None]
            if len(inside) < _FEWEST:
                continue
            if self.cut_short:
                return None
            solvable = equations.solvable(inside)
            self.work, equations.work = self.work + equations.work, 0
            if not solvable and defective == _DEFECTIVE:
                continue
            defective += not solvable
            here = [rows[i] for i in members]
            for law in self._laws(
                [points[i] for i in inside], [values[i] or 0 for i in inside], solvable
            ):
                if not all(row.known.allows(law.value(row.point)) for row in here):
                    continue
                if (tested := self._test(law, region)) is not None:
                    agreeing = Agreeing.of((row.spec, row.known) for row in here)
                    return LawPiece(law, region, bool(self.before), agreeing, tested)
                wrong += 1
                self.refuted += 1
        return None

    def _laws(
        self, points: Sequence[Point], values: Sequence[int], solvable: bool
    ) -> Iterator[Law]:
        """The polynomial with these values, or else a few less a max(0, .) term."""
        if not solvable:
            yield from islice(self._with_defect(points, values), _DEFECTS)
        elif (found := self._solve(points, values)) is not None:
            yield Law(found)

    def _with_defect(self, points: Sequence[Point], values: Sequence[int]) -> Iterator[Law]:
        """A polynomial that is right for most and too large for the others, made right for all."""
        for found in self._lifted(points, values):
            over = [found.value(p) - v for p, v in zip(points, values, strict=True)]
            if 2 * over.count(Fraction(0)) < len(over) or any(x.denominator > 1 for x in over):
                continue
            for defect in defects(self.names, points, [int(x) for x in over]):
                yield Law(found, defect)

    def _lifted(self, points: Sequence[Point], values: Sequence[int]) -> Iterator[Polynomial]:
        """Polynomials that are linear in a field, from the one or two slices where it is smallest.

        Exceptions begin later: with the second or third head, not with the first.
        """
        for name in self.names:
            others = [other for other in self.names if other != name]
            ends, found = sorted({point[name] for point in points})[:2], list[Polynomial | None]()
            for c in ends:
                inside = [i for i, point in enumerate(points) if point[name] == c]
                here = [points[i] for i in inside], [values[i] for i in inside]
                found.append(self._solve(*here, others))
            first, second = (*found, None)[:2]
            if first is None:
                continue
            if ends[0] == 1:
                terms = {tuple(sorted((*m, name))): c for m, c in first.terms.items()}
                yield Polynomial(terms, first.rank)
            if second is not None:
                yield through(name, ends[0], first, ends[1], second)

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

    def _test(self, law: Law, region: Region) -> Agreeing | None:
        """Fresh architectures that agree; None if one contradicts it, or none tells."""

        def wanted(fields: dict[str, Any]) -> bool:
            point = point_of(fields, self.names)
            elsewhere = any(earlier.holds(point) for earlier in self.before)
            return region.holds(point) and not elsewhere and meets(self._only, fields)

        agreeing = []
        for drawn in self._source.some(self._count, wanted):
            known = self._source.known(drawn)
            if known is None:
                continue
            if not known.allows(law.value(point_of(drawn.fields, self.names))):
                return None
            agreeing.append((str(drawn.spec), known))
        return (
            Agreeing.of(agreeing) if any(known.value is not None for _, known in agreeing) else None
        )

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
