"""What is a formula for dimensions, where does it hold, and what agrees with it?

It may hold in simple regions: where up to two comparisons of fields are true. Bounds that are
proved refute what is outside of them. The exact rank at a random point mod p is the dimension, but
for an accident of probability about 1e-6: a formula has to give it, also where the upper bound is
larger. A rank found at a few real points, in balls, may fall short of the dimension: it is a bound,
and no more, unless it meets the upper one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations
from operator import eq, ge, le, lt
from typing import Any

from segre.sweep.polynomial import Defect, Point, Polynomial

_SIGNS = {"<=": le, "<": lt, ">=": ge, "==": eq}
_BOUNDS = 3  # smallest and largest values of a field that may bound a region


@dataclass(frozen=True)
class Comparison:
    """A field compared with another one, or with a number."""

    x: str
    sign: str
    y: str | int

    def holds(self, point: Point) -> bool:
        """Whether it is true at a point."""
        other = point[self.y] if isinstance(self.y, str) else self.y
        return bool(_SIGNS[self.sign](point[self.x], other))

    def __str__(self) -> str:
        return f"{self.x} {self.sign} {self.y}"


@dataclass(frozen=True)
class Region:
    """Some of the points: those where all comparisons hold."""

    tests: tuple[Comparison, ...]
    inside: int  # which of the points it was made from, one bit each

    @property
    def size(self) -> int:
        """How many of the points are inside."""
        return self.inside.bit_count()

    def members(self) -> list[int]:
        """The indices of the points inside."""
        return [i for i, bit in enumerate(reversed(f"{self.inside:b}")) if bit == "1"]

    def holds(self, point: Point) -> bool:
        """Whether a point is inside."""
        return all(test.holds(point) for test in self.tests)

    def __str__(self) -> str:
        return " and ".join(map(str, self.tests)) or "everywhere"


def regions(names: Sequence[str], points: Sequence[Point]) -> Iterator[Region]:
    """All of the points, then regions with fewer and fewer of them."""
    everything = (1 << len(points)) - 1
    yield Region((), everything)
    single: dict[int, Region] = {}
    for test in _comparisons(names, points):
        inside = int("".join("01"[test.holds(point)] for point in reversed(points)), 2)
        if inside not in {0, everything}:
            single.setdefault(inside, Region((test,), inside))
    found = dict(single)
    for one, two in combinations(single.values(), 2):
        if both := one.inside & two.inside:
            found.setdefault(both, Region(one.tests + two.tests, both))
    yield from sorted(found.values(), key=lambda r: (-r.size, len(r.tests), [*map(str, r.tests)]))


def _comparisons(names: Sequence[str], points: Sequence[Point]) -> Iterator[Comparison]:
    for x, y in permutations(names, 2):
        yield Comparison(x, "<=", y)
        yield Comparison(x, "<", y)
    for x in names:
        values = sorted({point[x] for point in points})
        for c in values[1 : 1 + _BOUNDS]:
            yield Comparison(x, ">=", c)
        for c in values[:_BOUNDS]:
            yield Comparison(x, "==", c)


@dataclass(frozen=True)
class Known:
    """Bounds of a dimension, and the value that a formula must have, if it is known."""

    low: int
    high: int | None
    value: int | None

    @property
    def proved(self) -> bool:
        """Whether the value is proved."""
        return self.value is not None and self.low == self.high

    def allows(self, value: int | Fraction) -> bool:
        """Whether a formula may have this value here."""
        if self.value is not None:
            return value == self.value
        return self.low <= value and (self.high is None or value <= self.high)

    @classmethod
    def of(
        cls,
        lower: int | None,
        upper: int | None,
        evidence: Mapping[str, Any],
        balls: bool = False,
    ) -> Known | None:
        """What bounds with their evidence say; None if there are none.

        With `balls` a rank that was found in balls counts as the dimension.
        """
        if lower is None and upper is None:
            return None
        kind = evidence.get("lower", {}).get("kind")
        exact = lower is not None and (kind == "minor-mod-p" or lower == upper or balls)
        return cls(lower or 0, upper, lower if exact else None)


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
class Agreeing:
    """Specs of architectures that a law does not contradict, by what is known of them."""

    proved: tuple[str, ...]  # the dimension is proved
    ranked: tuple[str, ...]  # the exact rank agrees; the upper bound is larger
    allowed: tuple[str, ...]  # the law is between the bounds

    @classmethod
    def of(cls, found: Iterable[tuple[str, Known]]) -> Agreeing:
        """Sort them."""
        every = list(found)
        return cls(
            tuple(spec for spec, known in every if known.proved),
            tuple(spec for spec, known in every if known.value is not None and not known.proved),
            tuple(spec for spec, known in every if known.value is None),
        )

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many there are of each sort."""
        return len(self.proved), len(self.ranked), len(self.allowed)


@dataclass(frozen=True)
class LawPiece:
    """A law, where it holds, and what agrees with it: rows of the region, fresh architectures."""

    law: Law
    region: Region
    otherwise: bool  # it is about what is outside of the regions before
    agreeing: Agreeing
    tested: Agreeing

    @property
    def fresh(self) -> tuple[str, ...]:
        """Fresh architectures that have that dimension, proved or by their exact rank."""
        return self.tested.proved + self.tested.ranked

    @property
    def rows(self) -> int:
        """All rows of the region: none contradicts it."""
        return sum(self.agreeing.counts)

    @property
    def place(self) -> str:
        """The region in words."""
        if not self.otherwise:
            return str(self.region)
        return f"otherwise, {self.region}" if self.region.tests else "otherwise"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        proved, ranked, allowed = self.agreeing.counts
        return {
            "dimension": str(self.law),
            "region": self.place,
            "rows": self.rows,
            "rows_proved": proved,
            "rows_by_rank": ranked,
            "rows_between_bounds": allowed,
            "coefficients": len(self.law.polynomial.terms),
            "told_apart": self.law.polynomial.rank,
            "fresh": list(self.fresh),
            "fresh_proved": list(self.tested.proved),
            "undecided": list(self.tested.allowed),
        }
