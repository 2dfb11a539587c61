"""The distance of weights from the global optimum, on the terminal."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from segre.optimum.certificate import Optimum
from segre.report.text import printed, say

_DIGITS = 10


@printed.register
def print_optimum(found: Optimum) -> None:
    """The objective, the proved bound, and the gap between them."""
    heads = f"{found.heads} head" + "s" * (found.heads != 1)
    say(f"objective of the {heads}: {up(found.objective)}")
    say(f"proved for any number of heads: at least {down(found.bound)}")
    share = f" ({up(found.gap / found.objective, 2)} of the objective)" if found.objective else ""
    say(f"gap: {up(found.gap, 3)}{share}; no training can improve by more than that")
    if found.certain > 0:
        count = f"{found.rank} head" + "s" * (found.rank != 1)
        say(f"the solver's own weights, with {count}, improve by at least {down(found.certain, 3)}")


def up(value: Fraction, digits: int = _DIGITS) -> str:
    """A number rounded up to the given digits.

    >>> up(Fraction(2, 3), 3), down(Fraction(2, 3), 3), up(Fraction(1, 3 * 10**9), 2)
    ('0.667', '0.666', '3.4e-10')
    """
    return _rounded(value, digits, ROUND_CEILING)


def down(value: Fraction, digits: int = _DIGITS) -> str:
    """A number rounded down to the given digits."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: Fraction, digits: int, how: str) -> str:
    context = Context(prec=digits, rounding=how, Emin=-(10**9), Emax=10**9)
    number = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    small = number != 0 and abs(number) < Decimal("0.001")
    return format(number, "e" if small else "g").replace("e+", "e")
