"""On which rows may a polynomial hold? Simple regions: up to two comparisons of fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from operator import eq, ge, le, lt

Point = Mapping[str, int]
Test = Callable[[Point], bool]
_BOUNDS = 3  # smallest and largest values of a field that may bound a region


@dataclass(frozen=True)
class Region:
    """Some of the points: those where all comparisons hold."""

    texts: tuple[str, ...]
    tests: tuple[Test, ...]
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
        return all(test(point) for test in self.tests)

    def __str__(self) -> str:
        return " and ".join(self.texts) or "everywhere"


def regions(names: Sequence[str], points: Sequence[Point]) -> Iterator[Region]:
    """All of the points, then regions with fewer and fewer of them."""
    everything = (1 << len(points)) - 1
    yield Region((), (), everything)
    single: dict[int, Region] = {}
    for text, test in _comparisons(names, points):
        inside = int("".join("01"[test(point)] for point in reversed(points)), 2)
        if inside not in {0, everything}:
            single.setdefault(inside, Region((text,), (test,), inside))
    found = dict(single)
    for one, two in combinations(single.values(), 2):
        both = Region(one.texts + two.texts, one.tests + two.tests, one.inside & two.inside)
        if both.inside:
            found.setdefault(both.inside, both)
    yield from sorted(found.values(), key=lambda r: (-r.size, len(r.texts), r.texts))


def _comparisons(names: Sequence[str], points: Sequence[Point]) -> Iterator[tuple[str, Test]]:
    for x, y in permutations(names, 2):
        yield f"{x} <= {y}", _fields(le, x, y)
        yield f"{x} < {y}", _fields(lt, x, y)
    for x in names:
        values = sorted({point[x] for point in points})
        for c in values[1 : 1 + _BOUNDS]:
            yield f"{x} >= {c}", _constant(ge, x, c)
        for c in values[:_BOUNDS]:
            yield f"{x} == {c}", _constant(eq, x, c)


def _fields(compare: Callable[[int, int], bool], x: str, y: str) -> Test:
    return lambda point: compare(point[x], point[y])


def _constant(compare: Callable[[int, int], bool], x: str, c: int) -> Test:
    return lambda point: compare(point[x], c)
