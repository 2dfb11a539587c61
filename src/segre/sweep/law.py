"""What is a formula for dimensions, where does it hold, and how did it fare?"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from segre.sweep.defect import Defect
from segre.sweep.polynomial import Polynomial
from segre.sweep.region import Point, Region


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
class Fresh:
    """Architectures that are not in the store and agree with a law."""

    proved: tuple[str, ...]  # their dimension is proved
    ranked: tuple[str, ...]  # their exact rank agrees; the upper bound is larger
    allowed: tuple[str, ...]  # the law is between their bounds


@dataclass(frozen=True)
class LawPiece:
    """A law, where it holds, and how it fared."""

    law: Law
    region: Region
    otherwise: bool  # it is about what is outside of the regions before
    proved: int  # rows whose dimension is proved, and is that
    ranked: int  # rows whose exact rank is that, and whose upper bound is larger
    allowed: int  # rows between whose bounds it is
    tested: Fresh

    @property
    def polynomial(self) -> Polynomial:
        """The law without its max(0, .) term."""
        return self.law.polynomial

    @property
    def fresh(self) -> tuple[str, ...]:
        """Fresh architectures that have that dimension, proved or by their exact rank."""
        return self.tested.proved + self.tested.ranked

    @property
    def undecided(self) -> tuple[str, ...]:
        """Fresh architectures of which only bounds are known, that allow it."""
        return self.tested.allowed

    @property
    def rows(self) -> int:
        """All rows of the region: none contradicts it."""
        return self.proved + self.ranked + self.allowed

    @property
    def place(self) -> str:
        """The region in words."""
        if not self.otherwise:
            return str(self.region)
        return f"otherwise, {self.region}" if self.region.texts else "otherwise"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "dimension": str(self.law),
            "region": self.place,
            "rows": self.rows,
            "rows_proved": self.proved,
            "rows_by_rank": self.ranked,
            "rows_between_bounds": self.allowed,
            "coefficients": len(self.polynomial.terms),
            "told_apart": self.polynomial.rank,
            "fresh": list(self.fresh),
            "fresh_proved": list(self.tested.proved),
            "undecided": list(self.undecided),
        }
