"""All critical points of the loss of a quadratic network with one output, in closed form.

The functions of poly/n-r-1/degree=2 are x^T M x with M symmetric of rank at most r. The loss is
a |M - T|^2 + b (tr(M - T))^2: for standard normal inputs a = 2 and b = 1, for the Frobenius norm
a = 1 and b = 0. Critical points of rank s keep s eigenvectors of T; docs/variety.md derives them,
their Hessians, and where gradient descent with fixed output signs can end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

from segre.errors import SegreError
from segre.json_data import stated
from segre.variety.metric import Metric

Real = Fraction | float
Signs = tuple[int, int]
MOST = 5000


@dataclass(frozen=True)
class Norm:
    """|M|^2 times `square`, plus (tr M)^2 times `trace`."""

    square: int
    trace: int


NORMS: dict[Metric, Norm] = {"gaussian": Norm(2, 1), "identity": Norm(1, 0)}


@dataclass(frozen=True)
class CriticalPoint:
    """M = sum of values_i u_i u_i^T over the eigenvectors u_i of T that are kept."""

    kept: tuple[int, ...]  # numbers of eigenvectors, from 0, eigenvalues of T descending
    values: tuple[Real, ...]
    loss: Real
    index: int  # directions in which the loss falls, on matrices of the same rank
    shift: Real  # what b tr(M - T) adds to the gradient

    @property
    def signs(self) -> Signs:
        """How many eigenvalues are positive, and how many negative."""
        return sum(v > 0 for v in self.values), sum(v < 0 for v in self.values)

    @property
    def degenerate(self) -> bool:
        """Whether an eigenvalue vanishes: then the rank is smaller, and it is not critical."""
        return not all(self.values)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        values = [exact(v) for v in self.values]
        return {
            **{"kept": [i + 1 for i in self.kept], "eigenvalues": values},
            **{"loss": exact(self.loss), "loss_float": float(self.loss)},
            **stated(self, "index signs degenerate"),
        }


@dataclass(frozen=True)
class Ending:
    """A local minimum of the loss of the weights, with output weights of fixed signs."""

    signs: Signs
    point: CriticalPoint

    @property
    def boundary(self) -> bool:
        """Whether it has a smaller rank than the network allows: units that are zero."""
        return self.point.signs != self.signs

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        own = self.point.document()
        return {"output_signs": list(self.signs), "boundary": self.boundary, "point": own}


def exact(value: Real) -> str | float:
    """A fraction as text, a float as it is."""
    return str(value) if isinstance(value, Fraction) else value


def critical_point(target: Sequence[Real], kept: Sequence[int], norm: Norm) -> CriticalPoint:
    """The critical point that keeps these eigenvectors; `target` are the eigenvalues of T.

    >>> target = [Fraction(3), Fraction(2), Fraction(1), Fraction(-3, 2)]
    >>> found = critical_point(target, (0, 1), NORMS["gaussian"])
    >>> found.loss, found.values, found.index
    (Fraction(53, 8), (Fraction(23, 8), Fraction(15, 8)), 0)
    """
    others = [j for j in range(len(target)) if j not in kept]
    ratio = Fraction(norm.trace, norm.square)
    trace = -sum((target[j] for j in others), Fraction(0)) / (1 + ratio * len(kept))
    values = tuple(target[i] - ratio * trace for i in kept)
    squares = sum((target[j] ** 2 for j in others), Fraction(0))
    loss = norm.square * squares + norm.trace * trace**2 * (1 + ratio * len(kept))
    falling = sum(
        (target[i] - target[j]) * value < 0
        for i, value in zip(kept, values, strict=True)
        for j in others
    )
    return CriticalPoint(tuple(kept), values, loss, falling, norm.trace * trace)


def critical_points(target: Sequence[Real], rank: int, norm: Norm) -> tuple[CriticalPoint, ...]:
    """All critical points on matrices of rank at most `rank`, the smallest loss first."""
    size = len(target)
    rank = min(rank, size)
    if comb(size, rank) > MOST:
        raise SegreError(
            f"there are {comb(size, rank):,} critical points, and at most {MOST:,} can be listed; "
            "leave out --target to count them"
        )
    found = [critical_point(target, kept, norm) for kept in combinations(range(size), rank)]
    return tuple(sorted(found, key=lambda one: (one.loss, one.kept)))


def endings(target: Sequence[Real], rank: int, norm: Norm) -> tuple[Ending, ...]:
    """Where gradient descent can end, for each number of positive output weights.

    >>> target = [Fraction(3), Fraction(2), Fraction(1), Fraction(-3, 2)]
    >>> [(one.signs, float(one.point.loss), one.boundary)
    ...  for one in endings(target, 2, NORMS["gaussian"])]
    [((2, 0), 6.625, False), ((1, 1), 14.5, False), ((0, 2), 52.75, True)]
    """
    return tuple(
        Ending((plus, rank - plus), point)
        for plus in range(rank, -1, -1)
        for point in _endings(target, (plus, rank - plus), norm)
    )


def _endings(target: Sequence[Real], signs: Signs, norm: Norm) -> Iterator[CriticalPoint]:
    """Minima keep the largest and the smallest eigenvalues, with the signs that units can have.

    If fewer positive units are used than there are, the gradient must not be negative in any
    direction that is left, and likewise for negative ones.
    """
    size = len(target)
    for plus in range(min(signs[0], size) + 1):
        for minus in range(min(signs[1], size - plus) + 1):
            kept = (*range(plus), *range(size - minus, size))
            point = critical_point(target, kept, norm)
            if point.signs != (plus, minus) or point.index:
                continue
            left = [point.shift - norm.square * target[j] for j in range(size) if j not in kept]
            rises = plus == signs[0] or all(g >= 0 for g in left)
            falls = minus == signs[1] or all(g <= 0 for g in left)
            if rises and falls:
                yield point
