"""What is a formula for dimensions, where does it hold, and what agrees with it?

Bounds that are proved refute what is outside of them. The exact rank at a random point mod p is the
dimension, but for an accident of probability about 1e-6: a formula has to give it, also where the
upper bound is larger. A rank found at a few real points, in balls, may fall short of the
dimension: it is a bound, and no more, unless it meets the upper one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from segre.sweep.defect import Defect
from segre.sweep.polynomial import Polynomial
from segre.sweep.region import Point, Region


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
