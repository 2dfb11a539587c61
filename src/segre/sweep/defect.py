"""By how much does a polynomial exceed the dimensions? Perhaps by a max(0, .) of a few terms.

A formula that holds for few heads, say, is too large for many, by an amount that begins at zero.
The amounts that are not zero are fitted by a factor times few terms, exactly; where they are zero
the terms must not be positive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

Point = Mapping[str, int]
Numbers = npt.NDArray[np.int64]
_TERMS = 3
_SPARE = 2  # rows beyond the coefficients
_LARGEST = 64  # a coefficient
_ROWS = 40  # to solve with; the solution is checked on all


@dataclass(frozen=True)
class Term:
    """A power of a field or of a difference of fields, a product of two fields, or one."""

    text: str
    plus: tuple[str, ...] = ()
    minus: str | None = None
    power: int = 1

    def value(self, point: Point) -> int:
        """The value at a point."""
        if self.minus is not None:
            base: int = point[self.plus[0]] - point[self.minus]
            return base if self.power == 1 else base * base
        found = 1
        for name in self.plus * self.power:
            found *= point[name]
        return found


@dataclass(frozen=True)
class Defect:
    """factor * max(0, sum of terms)."""

    factor: str | None
    terms: tuple[tuple[int, Term], ...]

    def value(self, point: Point) -> int:
        """The value at a point: never negative, as fields are not."""
        inner = sum(c * term.value(point) for c, term in self.terms)
        return max(0, inner) * (1 if self.factor is None else point[self.factor])

    def __str__(self) -> str:
        inner = "".join(_signed(c, term.text) for c, term in _positive_first(self.terms))
        inner = inner[3:] if inner.startswith(" + ") else "-" + inner[3:]
        return f"{'' if self.factor is None else self.factor + '*'}max(0, {inner})"


def _positive_first(terms: Sequence[tuple[int, Term]]) -> list[tuple[int, Term]]:
    return sorted(terms, key=lambda one: one[0] < 0)


def _signed(c: int, text: str) -> str:
    size = abs(c)
    shown = str(size) if text == "1" else text if size == 1 else f"{size}*{text}"
    return (" - " if c < 0 else " + ") + shown


def terms_of(names: Sequence[str]) -> list[Term]:
    """The terms that are tried, simple ones first."""
    pairs = list(combinations(names, 2))
    return [
        Term("1"),
        *(Term(x, (x,)) for x in names),
        *(Term(f"({x} - {y})", (x,), y) for x, y in pairs),
        *(Term(f"{x}**2", (x,), None, 2) for x in names),
        *(Term(f"({x} - {y})**2", (x,), y, 2) for x, y in pairs),
        *(Term(f"{x}*{y}", (x, y)) for x, y in pairs),
    ]


class Excess:
    """The excess of a formula over the dimensions at some points, as arrays for the search."""

    def __init__(self, names: Sequence[str], points: Sequence[Point], over: Sequence[int]) -> None:
        self.names = names
        self.terms = terms_of(names)
        self.over: Numbers = np.array(over, dtype=np.int64)
        table = [[term.value(point) for term in self.terms] for point in points]
        self.table: Numbers = np.array(table, dtype=np.int64).reshape(len(points), -1)
        columns = [[point[name] for name in names] for point in points]
        self.fields: Numbers = np.array(columns, dtype=np.int64).reshape(len(points), -1)

    def defects(self) -> Iterator[Defect]:
        """Every defect that is right at all points, simple ones first."""
        table, over, fields = self.table, self.over, self.fields
        there = over > 0
        if (over < 0).any() or not there.any():
            return
        for size in range(1, _TERMS + 1):
            if there.sum() < size + _SPARE:
                return
            for factor in (None, *range(len(self.names))):
                scale = np.ones_like(over) if factor is None else fields[:, factor]
                if (scale <= 0).any() or (over % scale).any():
                    continue
                for chosen, found in _fits(table, over // scale, there, size):
                    terms = tuple((c, self.terms[k]) for k, c in zip(chosen, found, strict=True))
                    yield Defect(None if factor is None else self.names[factor], terms)


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
