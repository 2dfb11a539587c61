"""The decay rates of lightning attention: exp(-factor 2^-exponent), one for each head."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp


@dataclass(frozen=True)
class Slope:
    """A number that is no fraction. Head h of H has the exponent 8 h / H.

    >>> str(Slope.of(1, 4)), round(Slope.of(1, 4).value, 6)
    ('slope(2)', 0.778801)
    """

    exponent: Fraction
    factor: Fraction = Fraction(1)

    @classmethod
    def of(cls, head: int, heads: int) -> Slope:
        """That of one head, counted from 1."""
        return cls(Fraction(8 * head, heads))

    @property
    def value(self) -> float:
        """Rounded."""
        return exp(-float(self.factor) * 2.0 ** -float(self.exponent))

    def power(self, unit: int) -> tuple[Fraction, Fraction]:
        """The number as exp(-2^-f / unit)^n: f, at least 0 and below 1, and n.

        The numbers exp(-2^-f / unit) of different f are algebraically independent (Lindemann and
        Weierstrass), since the powers 2^-f are linearly independent over the rationals.
        """
        whole = self.exponent.numerator // self.exponent.denominator
        return self.exponent - whole, self.factor * unit / 2**whole

    def __str__(self) -> str:
        scaled = "" if self.factor == 1 else f";{self.factor}"
        return f"slope({self.exponent}{scaled})"
