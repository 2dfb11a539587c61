"""The distance of weights from the global optimum."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from segre.optimum.certificate import Optimum
from segre.report.blocks import Block, Say, Title
from segre.report.views import view
from segre.values import counted

_DIGITS = 10


@view.register
def of_optimum(found: Optimum) -> Iterator[Block]:
    """The objective, the proved bound, and the gap between them."""
    yield Title("Distance from the global optimum", "bounded", terminal=False)
    heads = counted(found.heads, "head")
    yield Say(f"objective of the {heads}: {up(found.objective)}", wrap=False)
    yield Say(f"proved for any number of heads: at least {down(found.bound)}", wrap=False)
    share = f" ({up(found.gap / found.objective, 2)} of the objective)" if found.objective else ""
    said = f"gap: {up(found.gap, 3)}{share}; no training can improve by more than that"
    yield Say(said, wrap=False)
    if found.certain > 0:
        said = f"the solver's own weights, with {counted(found.rank, 'head')}, improve by at least "
        yield Say(said + down(found.certain, 3), wrap=False)


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
