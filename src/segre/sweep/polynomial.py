"""Which polynomial in some numbers takes given values, perhaps less a max(0, .) of a few terms?

Solved exactly, over the fractions. A formula that holds for few heads, say, is too large for many,
by an amount that begins at zero. The amounts that are not zero are fitted by a factor times few
terms, exactly; where they are zero the terms must not be positive.

>>> points = [{"a": a, "d": d} for a in range(1, 4) for d in range(1, 5)]
>>> str(interpolate(["a", "d"], 2, points, [2*p["a"]*p["d"] - p["a"]**2 for p in points]))
'2*a*d - a**2'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import comb, lcm, prod
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import fmpz_mat, nmod_mat

Point = Mapping[str, int]
_PRIME = 2**61 - 1
Monomial = tuple[str, ...]  # names, repeated


@dataclass(frozen=True)
class Polynomial:
    """Coefficients by monomial, and how many monomials the points tell apart."""

    terms: Mapping[Monomial, Fraction]
    rank: int

    @property
    def whole(self) -> bool:
        """Whether all coefficients are integers."""
        return all(c.denominator == 1 for c in self.terms.values())

    def value(self, point: Point) -> Fraction:
        """The value at a point."""
        terms = (c * prod(point[name] for name in m) for m, c in self.terms.items())
        return sum(terms, Fraction(0))

    def __str__(self) -> str:
        """The polynomial as an expression, of an integer multiple if coefficients are fractions."""
        ordered = sorted(self.terms, key=lambda m: (-len(m), self.terms[m] < 0, m))
        scale = lcm(*(c.denominator for c in self.terms.values()))
        text = signed_sum((int(self.terms[m] * scale), _product(m)) for m in ordered)
        return text if scale == 1 else f"({text})//{scale}"


def _product(monomial: Monomial) -> str:
    powers = Counter(monomial).items()
    return "*".join(name if n == 1 else f"{name}**{n}" for name, n in powers) or "1"


def signed_sum(terms: Iterable[tuple[int, str]]) -> str:
    """Coefficients and what they stand before as an expression.

    >>> signed_sum([(2, "x"), (-1, "y"), (3, "1")])
    '2*x - y + 3'
    """
    text = ""
    for c, name in terms:
        size = abs(c)
        shown = str(size) if name == "1" else name if size == 1 else f"{size}*{name}"
        text += (" - " if c < 0 else " + ") + shown
    return "-" + text[3:] if text.startswith(" - ") else text[3:] or "0"


def monomials(names: Sequence[str], degree: int) -> list[Monomial]:
    """All monomials up to a degree, small degrees first."""
    return [m for n in range(degree + 1) for m in combinations_with_replacement(names, n)]


def interpolate(
    names: Sequence[str],
    degree: int,
    points: Sequence[Point],
    values: Sequence[int],
) -> Polynomial | None:
    """The polynomial up to a degree with these values, or None if there is none.

    Where the points do not tell monomials apart, those of low degree are used.
    """
    basis = monomials(names, degree)
    some = _spread(len(points), 2 * len(basis) + 20)
    lines = [[*_values(points[i], names, degree), values[i]] for i in some]
    solved, denominator, rank = fmpz_mat(lines).rref()
    terms: dict[Monomial, Fraction] = {}
    column = 0
    for row in range(rank):
        while int(solved[row, column]) == 0:
            column += 1
        if column == len(basis):
            return None
        coefficient = Fraction(int(solved[row, len(basis)]), int(denominator))
        if coefficient:
            terms[basis[column]] = coefficient
    found = Polynomial(terms, rank)
    agree = all(found.value(p) == v for p, v in zip(points, values, strict=True))
    return found if agree else None


def _values(point: Mapping[str, int], names: Sequence[str], degree: int) -> list[int]:
    """All monomials up to a degree at a point, in their order: each is a shorter one times a field.

    >>> _values({"x": 2, "y": 3}, ["x", "y"], 2)
    [1, 2, 3, 4, 6, 9]
    """
    numbers = [point[name] for name in names]
    found, last = [1], [*([] for _ in numbers[1:]), [1]]
    for _ in range(degree):
        # those that begin with field k: it times all that begin with k or a later one
        last = [[numbers[k] * x for part in last[k:] for x in part] for k in range(len(numbers))]
        found += [x for part in last for x in part]
    return found


def through(name: str, x: int, one: Polynomial, y: int, two: Polynomial) -> Polynomial:
    """The polynomial, linear in a field, that is `one` where it is x and `two` where it is y.

    Neither of the two has the field in it.
    """
    terms: dict[Monomial, Fraction] = {}
    for m in {**one.terms, **two.terms}:
        low, high = one.terms.get(m, Fraction(0)), two.terms.get(m, Fraction(0))
        slope = (high - low) / (y - x)
        terms[m], terms[tuple(sorted((*m, name)))] = low - x * slope, slope
    # in one + (field - x) / (y - x) * (two - one), a factor of two terms counts twice
    rank = one.rank + 2 * (one.rank + two.rank)
    return Polynomial({m: c for m, c in terms.items() if c}, rank)


@dataclass
class Equations:
    """Values at many points: does a polynomial take them on a subset? Fast if none does.

    Decided mod a large prime. Monomials are worked out once.
    """

    names: Sequence[str]
    degree: int
    points: Sequence[Point]
    values: Sequence[int]
    work: int = 0  # multiplications so far
    _lines: dict[int, list[int]] = field(default_factory=dict)

    def solvable(self, members: Sequence[int]) -> bool:
        """Whether a polynomial up to the degree has the values at these points."""
        width = comb(len(self.names) + self.degree, self.degree) + 1  # monomials and the value
        return all(  # where there is none, few points mostly tell
            self._consistent([members[i] for i in _spread(len(members), most)], width)
            for most in (width + 10, 2 * width + 20)
            if most == 2 * width + 20 or most < len(members)
        )

    def _consistent(self, some: Sequence[int], width: int) -> bool:
        self.work += len(some) * width * width
        entries = [x for i in some for x in self._line(i)]
        solved, rank = nmod_mat(len(some), width, entries, _PRIME).rref()
        return rank == 0 or any(int(solved[rank - 1, k]) for k in range(width - 1))

    def _line(self, i: int) -> list[int]:
        if i not in self._lines:
            line = _values(self.points[i], self.names, self.degree)
            self._lines[i] = [x % _PRIME for x in (*line, self.values[i])]
        return self._lines[i]


def _spread(count: int, most: int) -> list[int]:
    """Evenly spread indices, up to a limit."""
    if count <= most:
        return list(range(count))
    return [i * count // most for i in range(most)]


Numbers = npt.NDArray[np.int64]
_TERMS = 3
_SPARE = 2  # rows beyond the coefficients
_LARGEST = 64  # a coefficient
_ROWS = 40  # to solve with; the solution is checked on all


def with_differences(point: Mapping[str, Any]) -> dict[str, Any]:
    """Fields, which are numbers or arrays, and the differences of any two, under their names.

    >>> with_differences({"x": 5, "y": 3})
    {'x': 5, 'y': 3, '(x - y)': 2}
    """
    apart = {f"({x} - {y})": point[x] - point[y] for x, y in combinations(point, 2)}
    return {**point, **apart}


def terms_of(names: Sequence[str]) -> list[Monomial]:
    """The terms that are tried, in fields and differences of two, simple ones first."""
    every = with_differences(dict.fromkeys(names, 0))
    return [(), *((x,) for x in every), *((x, x) for x in every), *combinations(names, 2)]


@dataclass(frozen=True)
class Defect:
    """factor * max(0, sum of terms); a term is a product of fields or of their differences."""

    factor: str | None
    terms: tuple[tuple[int, Monomial], ...]

    def value(self, point: Point) -> int:
        """The value at a point: never negative, as fields are not."""
        known = with_differences(point)
        inner: int = sum(c * prod(known[name] for name in term) for c, term in self.terms)
        return max(0, inner) * (1 if self.factor is None else point[self.factor])

    def __str__(self) -> str:
        ordered = sorted(self.terms, key=lambda one: one[0] < 0)
        inner = signed_sum((c, _product(term)) for c, term in ordered)
        return f"{'' if self.factor is None else self.factor + '*'}max(0, {inner})"


def defects(
    names: Sequence[str], points: Sequence[Point], excess: Sequence[int]
) -> Iterator[Defect]:
    """Every defect that equals the excess of a formula at all points, simple ones first."""
    over = np.array(excess, dtype=np.int64)
    fields = {name: np.array([point[name] for point in points], dtype=np.int64) for name in names}
    terms, known = terms_of(names), with_differences(fields)
    products = (prod(known[name] for name in term) for term in terms)
    table = np.stack([np.broadcast_to(one, over.shape) for one in products], axis=1)
    there = over > 0
    if (over < 0).any() or not there.any():
        return
    for size in range(1, _TERMS + 1):
        if there.sum() < size + _SPARE:
            return
        for factor in (None, *names):
            scale = np.ones_like(over) if factor is None else fields[factor]
            if (scale <= 0).any() or (over % scale).any():
                continue
            for chosen, found in _fits(table, over // scale, there, size):
                yield Defect(
                    factor, tuple((c, terms[k]) for k, c in zip(chosen, found, strict=True))
                )


def _fits(
    table: Numbers, wanted: Numbers, there: npt.NDArray[np.bool_], size: int
) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """Columns and integer coefficients whose sum equals `wanted` where positive, else is <= 0."""
    inside, outside, exact = table[there], table[~there], wanted[there]
    few = np.linspace(0, len(inside) - 1, min(_ROWS, len(inside))).astype(int)
    columns = np.array(list(combinations(range(table.shape[1]), size)))
    some = inside[few].astype(float)[:, columns].swapaxes(0, 1)  # (choices, rows, size)
    square = some.swapaxes(1, 2) @ some
    size_of = np.sqrt(np.einsum("kii->ki", square).prod(axis=1))
    regular = np.abs(np.linalg.det(square)) > 1e-9 * np.maximum(size_of, 1) ** 2
    right = some[regular].swapaxes(1, 2) @ exact[few].astype(float)
    solved = np.linalg.solve(square[regular], right[..., None])[..., 0]
    whole = np.rint(solved)
    good = (np.abs(solved - whole) < 1e-4).all(axis=1) & (np.abs(whole) <= _LARGEST).all(axis=1)
    good &= whole.all(axis=1)
    for k in np.flatnonzero(good):
        chosen, found = columns[regular][k], whole[k].astype(np.int64)
        if (inside[:, chosen] @ found == exact).all() and (outside[:, chosen] @ found <= 0).all():
            yield tuple(chosen.tolist()), found.tolist()
