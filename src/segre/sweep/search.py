"""On which region does which formula hold? The search, and its tests on fresh architectures.

Fresh ones are like those of a store, but not among them. Ranges go on a little past their largest
values: a formula is also tried where it was not made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice, tee
from typing import Any

from segre.errors import SweepError
from segre.sweep.draw import Drawn, architectures
from segre.sweep.expression import Expression
from segre.sweep.law import Agreeing, Known, Law, LawPiece, Region, regions
from segre.sweep.names import NUMBERED, with_entries
from segre.sweep.plan import SPECS, Plan
from segre.sweep.polynomial import (
    Equations,
    Point,
    Polynomial,
    defects,
    interpolate,
    monomials,
    through,
)
from segre.sweep.task import bytes_needed, solve, task_of

_BEYOND = 2  # how far past the largest values of the store
_LOOKED_AT = 20_000  # draws
_PARAMETERS = 1_500  # so that testing takes seconds
_MEMORY = 2 << 30


class Source:
    """Fresh architectures of a plan; each is drawn, and solved, once."""

    def __init__(
        self, plan: Plan, varied: Sequence[str], done: Collection[str], seed: int, balls: bool
    ) -> None:
        self._plan, self._varied, self._done = plan, varied, done
        self._seed, self._balls = seed, balls  # whether ranks found in balls count
        self._answers: dict[str, dict[str, Any]] = {}
        self._drawn = self._draw()

    def some(self, count: int, wanted: Callable[[dict[str, Any]], bool]) -> Iterator[Drawn]:
        """Architectures with the wanted fields, up to a limit."""
        self._drawn, again = tee(self._drawn)
        return islice((drawn for drawn in again if wanted(drawn.fields)), count)

    def known(self, drawn: Drawn) -> Known | None:
        """What is known of its dimension."""
        digest = drawn.spec.digest
        if digest not in self._answers:
            task = task_of(drawn.spec, ["exact"], self._seed + 1, _MEMORY)
            self._answers[digest] = solve(task)
        found = self._answers[digest]
        return Known.of(found["lower"], found["upper"], found["evidence"], self._balls)

    def _draw(self) -> Iterator[Drawn]:
        try:
            for looked_at, drawn in enumerate(architectures(self._wider())):
                if looked_at == _LOOKED_AT:
                    return
                spec = drawn.spec
                small = spec.parameters <= _PARAMETERS and bytes_needed(spec, ["exact"]) <= _MEMORY
                if small and spec.digest not in self._done:
                    yield drawn
        except SweepError:
            return  # no more of them

    def _wider(self) -> Plan:
        """The plan with extended ranges, drawn with another seed."""
        stems = {name: name.rstrip("0123456789") for name in self._varied}
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


CUT_SHORT = "give fewer --fields, a smaller --degree or a --where to search all regions"
_COEFFICIENTS = 250  # of a guess
_PIECES = 4  # formulas of one search
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


@dataclass
class Search:
    """Finds laws, one region after the other; each agrees with `count` fresh architectures."""

    names: list[str]
    only: Expression | None
    degree: int
    rational: bool
    source: Source
    count: int
    before: list[Region] = field(default_factory=list)
    refuted: int = 0
    work: int = 0  # multiplications so far
    fractions: Polynomial | None = None  # one that was found, where integers are wanted

    def __post_init__(self) -> None:
        sizes = [len(monomials(self.names, n)) for n in range(self.degree + 1)]
        self.degree = max(n for n, size in enumerate(sizes) if n == 0 or size <= _COEFFICIENTS)

    def pieces(self, rows: Sequence[KnownRow]) -> tuple[list[LawPiece], Sequence[KnownRow]]:
        """A few laws, each on the rows that those before it do not explain; and what is left."""
        found = list[LawPiece]()
        while len(found) < _PIECES and (piece := self._piece(rows)) is not None:
            found.append(piece)
            self.before.append(piece.region)
            rows = [row for row in rows if not piece.region.holds(row.point)]
        return found, rows

    def _piece(self, rows: Sequence[KnownRow]) -> LawPiece | None:
        """The law on the largest region of these rows that fresh architectures confirm."""
        points = [row.point for row in rows]
        values = [row.known.value for row in rows]
        equations = Equations(self.names, self.degree, points, [value or 0 for value in values])
        before, defective = self.refuted, 0
        for region in islice(regions(self.names, points), _REGIONS):
            if region.size < _FEWEST or self.refuted - before == _WRONG:
                return None
            here = [rows[i] for i in region.members()]
            inside = [i for i in region.members() if values[i] is not None]
            if len(inside) < _FEWEST:
                continue
            if self.cut_short:
                return None
            solvable = equations.solvable(inside)
            self.work, equations.work = self.work + equations.work, 0
            if not solvable and defective == _DEFECTIVE:
                continue
            defective += not solvable
            laws = self._laws([rows[i] for i in inside], solvable)
            if (piece := self._confirmed(laws, region, here)) is not None:
                return piece
        return None

    def _confirmed(
        self, laws: Iterator[Law], region: Region, here: Sequence[KnownRow]
    ) -> LawPiece | None:
        """The first law that neither a row of the region nor a fresh architecture contradicts."""
        for law in laws:
            if not all(row.known.allows(law.value(row.point)) for row in here):
                continue
            if (tested := self._test(law, region)) is not None:
                agreeing = Agreeing.of((row.spec, row.known) for row in here)
                return LawPiece(law, region, bool(self.before), agreeing, tested)
            self.refuted += 1
        return None

    def _laws(self, rows: Sequence[KnownRow], solvable: bool) -> Iterator[Law]:
        """The polynomial with the values of rows, or else a few less a max(0, .) term."""
        points, values = [row.point for row in rows], [row.known.value or 0 for row in rows]
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
            return region.holds(point) and not elsewhere and meets(self.only, fields)

        agreeing = []
        for drawn in self.source.some(self.count, wanted):
            known = self.source.known(drawn)
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
