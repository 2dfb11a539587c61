"""On which rows may a polynomial hold? Simple regions: up to two comparisons of fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from operator import eq, ge, le, lt

Point = Mapping[str, int]
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
