"""The decay rates of lightning attention: exp(-factor 2^-exponent), one for each head."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp

_PARTS = 10**5  # MiniMax adds 1e-5 to both terms of a layer's factor


@dataclass(frozen=True)
class Slope:
    """A transcendental decay rate. Head h of H has the exponent 8 h / H.

    >>> str(Slope.of(1, 4)), round(Slope.of(1, 4).value, 6)
    ('slope(2)', 0.778801)
    """

    exponent: Fraction
    factor: Fraction = Fraction(1)
    fine: int = 1  # a denominator that all factors of a network have in common

    @classmethod
    def of(cls, head: int, heads: int) -> Slope:
        """The rate of one head, counted from 1."""
        return cls(Fraction(8 * head, heads))

    @classmethod
    def in_layer(cls, head: int, heads: int, layer: int, layers: int) -> Slope:
        """The rate of one head of a layer, both counted from 1; later layers decay more slowly.

        >>> Slope.in_layer(1, 4, 1, 1).factor
        Fraction(100001, 100000)
        """
        fine = _PARTS * (layers - 1) + 1
        factor = 1 - Fraction(_PARTS * (layer - 1), fine) + Fraction(1, _PARTS)
        return cls(Fraction(8 * head, heads), factor, fine)

    @property
    def value(self) -> float:
        """Rounded."""
        return exp(-float(self.factor) * 2.0 ** -float(self.exponent))

    def power(self, unit: int) -> tuple[Fraction, Fraction]:
        """The number as exp(-2^-f / (fine unit))^n: f, at least 0 and below 1, and n.

        The numbers exp(-2^-f / (fine unit)) of different f are algebraically independent
        (Lindemann and Weierstrass), since the powers 2^-f are linearly independent over the
        rationals.
        """
        whole = self.exponent.numerator // self.exponent.denominator
        return self.exponent - whole, self.factor * self.fine * unit / 2**whole

    def __str__(self) -> str:
        scaled = "" if self.factor == 1 else f";{self.factor}"
        return f"slope({self.exponent}{scaled})"
