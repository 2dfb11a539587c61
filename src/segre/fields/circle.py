"""Rotary angles: how fast planes turn, and which angles are rational multiples of each other?

By Lindemann and Weierstrass the numbers exp(i a) for algebraic numbers a that are linearly
independent over Q are algebraically independent. So the rotations of one angle of every class
are generic points of the circle, and the other angles of a class are whole multiples of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm, log, pi

import numpy as np
import numpy.typing as npt
from flint import fmpz


@dataclass(frozen=True)
class Frequencies:
    """The angles by which planes rotate from one position to the next.

    Plane j turns by f (a + b f / pi) stretch^(-j / (planes - 1)), with f = base^(-j / planes) and
    (a, b) the j-th of `blend`; without a blend a = 1 and b = 0. With a `ramp` (F, L, fast, slow) it
    is slowed down by 1 - y + y / F, where y goes from 0 at plane e(fast) to 1 at plane e(slow);
    e(x) = planes ln(L / (2 pi x)) / ln(base).
    """

    base: int | Fraction
    planes: int
    blend: tuple[tuple[Fraction, Fraction], ...] = ()
    stretch: Fraction = Fraction(1)
    ramp: tuple[Fraction, ...] = ()

    @property
    def commensurable(self) -> bool:
        """Whether all are rational multiples of powers of base^(1 / planes)."""
        return self.stretch == 1 and not self.ramp and not any(b for _, b in self.blend)

    def floats(self) -> npt.NDArray[np.float64]:
        """The frequencies, rounded."""
        plane = np.arange(self.planes)
        out: npt.NDArray[np.float64] = float(self.base) ** (-plane / self.planes)
        if self.blend:
            a, b = np.array(self.blend, dtype=np.float64).T
            out = out * (a + b * out / pi)
        if self.stretch != 1:
            out = out * float(self.stretch) ** (-plane / (self.planes - 1))
        if self.ramp:
            factor, length, fast, slow = map(float, self.ramp)
            first, last = (
                self.planes * log(length / (2 * pi * turns)) / log(self.base)
                for turns in (fast, slow)
            )
            first, last = max(first, 0.0), min(last, 2.0 * self.planes - 1)
            last += 1e-3 * (first == last)
            y = ((plane - first) / (last - first)).clip(0, 1)
            out = out * (1 - y + y / factor)
        return out

    def multiples(self) -> tuple[tuple[int, int], ...]:
        """The class of every angle, and which multiple of the class's unit it is.

        Where nothing is known of the angles' relations, every one is a class of its own.
        """
        if not self.commensurable:
            return tuple((j, 1) for j in range(self.planes))
        return commensurable(self.base, self.planes, tuple(a for a, _ in self.blend))


@lru_cache(maxsize=256)
def commensurable(
    base: int | Fraction, planes: int, factors: tuple[Fraction, ...] = ()
) -> tuple[tuple[int, int], ...]:
    """For each angle factor_j base^(-j/planes): its class, and its multiple of the class's unit.

    With base = b^g, b no power of a rational number, base^(1/planes) has degree
    m = planes / gcd(planes, g) over Q, and angles j, j' are commensurable if and only if m divides
    j - j'. Then their quotient is a power of base^(m/planes) = b^(g / gcd(planes, g)), times that
    of their factors. The unit is the largest number of which all angles of the class are whole
    multiples.

    >>> commensurable(10_000, 2)  # 1 and 1/100
    ((0, 100), (0, 1))
    >>> commensurable(10, 2)  # 1 and 1/sqrt(10)
    ((0, 1), (1, 1))
    >>> commensurable(Fraction(9, 4), 2)  # 1 and 2/3
    ((0, 3), (0, 2))
    >>> commensurable(10_000, 2, (Fraction(1), Fraction(1, 4)))  # 1 and 1/400
    ((0, 400), (0, 1))
    """
    root, power = _perfect_power(base)
    common = gcd(planes, power)
    degree, ratio = planes // common, root ** (power // common)
    size = [Fraction(ratio ** ((planes - 1 - j) // degree)) for j in range(planes)]
    if factors:
        size = [x * factor for x, factor in zip(size, factors, strict=True)]
    out = []
    for j in range(planes):
        others = size[j % degree :: degree]
        below = lcm(*(x.denominator for x in others))
        unit = Fraction(gcd(*(int(x * below) for x in others)), below)
        out.append((j % degree, int(size[j] / unit)))
    return tuple(out)


def _perfect_power(base: int | Fraction) -> tuple[Fraction, int]:
    """The b and the largest g with b^g = base; b is rational."""
    above, below = fmpz(base.numerator), fmpz(base.denominator)
    for power in range(base.numerator.bit_length(), 1, -1):
        root, under = above.root(power), below.root(power)
        if root**power == above and under**power == below:
            return Fraction(int(root), int(under)), power
    return Fraction(base), 1
