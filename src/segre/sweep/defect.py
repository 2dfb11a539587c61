"""By how much does a polynomial exceed the dimensions? Perhaps by a max(0, .) of a few terms.

A formula that holds for few heads, say, is too large for many, by an amount that begins at zero.
The amounts that are not zero are fitted by a factor times few terms, exactly; where they are zero
the terms must not be positive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from segre.sweep.polynomial import signed_sum
from segre.sweep.region import Point

Numbers = npt.NDArray[np.int64]
_TERMS = 3
_SPARE = 2  # rows beyond the coefficients
_LARGEST = 64  # a coefficient
_ROWS = 40  # to solve with; the solution is checked on all


@dataclass(frozen=True)
class Term:
    """A product of up to two fields, or of differences of two fields."""

    text: str
    factors: tuple[str | tuple[str, str], ...]

    def value(self, point: Mapping[str, Any]) -> Any:
        """The value at a point, or at many, whose fields are then arrays."""
        return prod(
            point[f] if isinstance(f, str) else point[f[0]] - point[f[1]] for f in self.factors
        )


@dataclass(frozen=True)
class Defect:
    """factor * max(0, sum of terms)."""

    factor: str | None
    terms: tuple[tuple[int, Term], ...]

    def value(self, point: Point) -> int:
        """The value at a point: never negative, as fields are not."""
        inner: int = sum(c * term.value(point) for c, term in self.terms)
        return max(0, inner) * (1 if self.factor is None else point[self.factor])

    def __str__(self) -> str:
        ordered = sorted(self.terms, key=lambda one: one[0] < 0)
        inner = signed_sum((c, term.text) for c, term in ordered)
        return f"{'' if self.factor is None else self.factor + '*'}max(0, {inner})"


def terms_of(names: Sequence[str]) -> list[Term]:
    """The terms that are tried, simple ones first."""
    pairs = list(combinations(names, 2))
    return [
        Term("1", ()),
        *(Term(x, (x,)) for x in names),
        *(Term(f"({x} - {y})", ((x, y),)) for x, y in pairs),
        *(Term(f"{x}**2", (x, x)) for x in names),
        *(Term(f"({x} - {y})**2", ((x, y), (x, y))) for x, y in pairs),
        *(Term(f"{x}*{y}", (x, y)) for x, y in pairs),
    ]


def defects(
    names: Sequence[str], points: Sequence[Point], excess: Sequence[int]
) -> Iterator[Defect]:
    """Every defect that equals the excess of a formula at all points, simple ones first."""
    over = np.array(excess, dtype=np.int64)
    fields = {name: np.array([point[name] for point in points], dtype=np.int64) for name in names}
    terms = terms_of(names)
    table = np.stack([np.broadcast_to(term.value(fields), over.shape) for term in terms], axis=1)
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
