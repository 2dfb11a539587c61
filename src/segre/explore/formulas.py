"""The counts of a design as polynomials in its sizes: found by exact interpolation, then checked.

For fixed choices of design every count that segre makes (parameters, symmetries, operations) is a
polynomial in the sizes, in each of three regions: the value heads of a layer are together narrower
than the stream, as wide, or wider. From three layers on it is of degree one in the layers. Nothing
here knows a formula: counts are segre's own at small sizes, and a polynomial that disagrees with
segre at other sizes stops the build.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from segre.explore.trace import Tree, value
from segre.sweep.polynomial import Polynomial, interpolate

Sizes = dict[str, int]  # d, L, H = g k, k, a, f, V, t, w: H heads, in k groups of g; a window w
Counts = Mapping[tuple[str, ...], int]
REGIONS = ("narrower", "equal", "wider")
# Where the polynomials hold: each size is at least so large. What a design has not is not asked.
LIMITS: tuple[tuple[str, Tree], ...] = (
    ("d", 8),
    ("L", 3),
    ("a", 4),
    ("f", 4),
    ("V", 16),
    ("t", 16),
    ("w", 8),
    ("d", ["+", "a", 2]),
    ("V", ["+", "d", 8]),
    ("t", ["+", "a", 12]),
    ("t", "w"),
)
_FEW, _POINTS = 15, 30
_SPARE = 4  # more equations than unknowns
_HIGHEST = 4
_NUMBER = re.compile(r"\((\d+)\)")


class DisagreementError(AssertionError):
    """An interpolated polynomial is not what segre counts."""


def region_of(at: Mapping[str, int]) -> str:
    """Whether all values of a token are narrower than the stream, as wide, or wider.

    >>> region_of({"d": 8, "k": 2, "a": 4})
    'equal'
    """
    inner, d = at["k"] * at["a"], at["d"]
    return REGIONS[0] if inner < d else REGIONS[1] if inner == d else REGIONS[2]


def sizes_in(region: str, rng: random.Random) -> Sizes:
    """Random small sizes of a region, within the limits."""
    while True:
        a, g, k = 2 * rng.randint(2, 6), rng.randint(1, 3), rng.randint(1, 4)  # g is never a or d
        least, most = {"narrower": (1, 30), "equal": (0, 0), "wider": (-k * a, -1)}[region]
        d = k * a + rng.randint(least, most)
        at = {"d": d, "L": 3, "H": g * k, "g": g, "k": k, "a": a, "f": rng.randint(4, 60)}
        at |= {"V": d + rng.randint(8, 99), "t": a + rng.randint(12, 40), "w": rng.randint(8, 40)}
        if region_of(at) == region and within_limits(at):
            return at


def within_limits(at: Mapping[str, int]) -> bool:
    """Whether the polynomials hold at some sizes."""
    return all(at[size] >= value(least, at) for size, least in LIMITS)


# One point of each region from which every size can grow by itself.
_STARTS = {
    "narrower": {"d": 61, "L": 3, "g": 2, "k": 3, "a": 6, "f": 23, "V": 109, "t": 31, "w": 20},
    "equal": {"d": 18, "L": 3, "g": 2, "k": 3, "a": 6, "f": 23, "V": 109, "t": 31, "w": 20},
    "wider": {"d": 17, "L": 3, "g": 2, "k": 5, "a": 6, "f": 23, "V": 109, "t": 31, "w": 20},
}


def _grown(region: str, name: str) -> Sizes | None:
    """The start with one size larger; where widths are equal the stream follows the heads."""
    at = dict(_STARTS[region])
    if region == "equal" and name == "d":
        return None
    at["g" if name == "H" else name] += 2 if name == "a" else 1
    if region == "equal":
        at["d"] = at["k"] * at["a"]
    return {**at, "H": at["g"] * at["k"]}


def named(name: str, at: Mapping[str, int]) -> tuple[str, str]:
    """A name with its number left out, and which size that number is.

    >>> named("basis GL(12) of the stream", {"d": 12, "a": 4, "g": 2})
    ('basis GL(#) of the stream', 'd')
    """
    found = _NUMBER.search(name)
    if found is None:
        return name, ""
    for size, count in (("d", at["d"]), ("a", at["a"]), ("g", at["g"]), ("d-1", at["d"] - 1)):
        if count == int(found[1]):
            return _NUMBER.sub("(#)", name), size
    raise DisagreementError(f"{name!r} has a number that is not one of {dict(at)}")


@dataclass(frozen=True)
class Fitted:
    """Polynomials of the counts of one design in one region, by label."""

    by_label: dict[tuple[str, ...], Polynomial]


def fitted(
    count: Callable[[Sizes], Counts],
    region: str,
    wanted: Iterable[tuple[str, ...]],
    *,
    points: int = _POINTS,
    names: Sequence[str] = ("d", "g", "k", "a", "f", "V", "t"),
) -> Fitted:
    """The polynomials that take segre's counts at random sizes of a region.

    Few sizes are tried first; those that do not determine a polynomial are joined by more.
    """
    rng = random.Random(20 + REGIONS.index(region))
    places = [sizes_in(region, rng) for _ in range(points)]
    lines = [_line(count, at) for at in places[:_FEW]]
    start = {**_STARTS[region], "H": _STARTS[region]["g"] * _STARTS[region]["k"]}
    grown = {name: at for name in names if (at := _grown(region, name)) is not None}
    moved = {name: _line(count, at) for name, at in grown.items()}
    first = _line(count, start)

    def polynomial(label: tuple[str, ...], part: int) -> Polynomial:
        matter = [name for name, line in moved.items() if line(label)[part] != first(label)[part]]
        for most in (_FEW, points):
            lines.extend(_line(count, at) for at in places[len(lines) : most])
            values = [line(label)[part] for line in lines]
            found = _through(matter, places[: len(lines)], values)
            if found is not None:
                return found
        raise DisagreementError(f"no polynomial of degree {_HIGHEST} fits the counts of {label}")

    out = {}
    for label in wanted:
        slope, base = polynomial(label, 0), polynomial(label, 1)
        terms = {(*monomial, "L"): c for monomial, c in slope.terms.items()}
        out[label] = Polynomial({**base.terms, **terms}, slope.rank + base.rank)
    return Fitted(out)


def _line(
    count: Callable[[Sizes], Counts], at: Sizes
) -> Callable[[tuple[str, ...]], tuple[int, int]]:
    """Of a count that is a line in the layers: its slope, and its value at no layers."""
    few, more = count(at), count({**at, "L": at["L"] + 1})

    def line(label: tuple[str, ...]) -> tuple[int, int]:
        slope = more.get(label, 0) - few.get(label, 0)
        return slope, few.get(label, 0) - at["L"] * slope

    return line


def _through(
    names: Sequence[str], places: Sequence[Sizes], values: Sequence[int]
) -> Polynomial | None:
    """The polynomial of the least degree, if there are more values than it could fit by itself."""
    for degree in range(_HIGHEST + 1):
        found = interpolate(names or ["d"], degree, places, values)
        if found is not None and found.rank <= len(places) - _SPARE:
            return found
    return None
