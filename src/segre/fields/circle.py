"""Rotary angles: which of base^(-j/n), j = 0..n-1, are rational multiples of each other?

By Lindemann and Weierstrass the numbers exp(i a) for algebraic numbers a that are linearly
independent over Q are algebraically independent. So the rotations of one angle of every class
are generic points of the circle, and the other angles of a class are whole multiples of it.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd


@lru_cache(maxsize=256)
def commensurable(base: int, planes: int) -> tuple[tuple[int, int], ...]:
    """For each angle base^(-j/planes): its class, and its multiple of the class's smallest.

    With base = b^g, b no power, base^(1/planes) has degree m = planes / gcd(planes, g) over Q,
    and angles j, j' are commensurable if and only if m divides j - j'. Then their quotient is
    a power of base^(m/planes) = b^(g / gcd(planes, g)).

    >>> commensurable(10_000, 2)  # 1 and 1/100
    ((0, 100), (0, 1))
    >>> commensurable(10, 2)  # 1 and 1/sqrt(10)
    ((0, 1), (1, 1))
    """
    root, power = _perfect_power(base)
    common = gcd(planes, power)
    degree, ratio = planes // common, root ** (power // common)
    return tuple((j % degree, ratio ** ((planes - 1 - j) // degree)) for j in range(planes))


def _perfect_power(base: int) -> tuple[int, int]:
    """The smallest b and largest g with b^g = base."""
    for power in range(base.bit_length(), 1, -1):
        root = round(base ** (1 / power))
        for candidate in (root - 1, root, root + 1):
            if candidate > 1 and candidate**power == base:
                return candidate, power
    return base, 1
