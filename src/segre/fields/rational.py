"""The rationals, exactly: arrays of python-flint's fractions. Lightning attention only: no exp."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq

from segre.errors import SegreError, UnluckyError
from segre.fields.interface import Array
from segre.fields.operators import Operators

# No exponents: "1e999999999" is a number too, of a gigabyte.
_NUMBER = re.compile(r"[+-]?(\d{1,1000}(/\d{1,1000})?|\d{1,1000}\.\d{1,1000})", re.ASCII)


class Rational(Operators):
    """The field Q.

    >>> F = Rational()
    >>> x = F.constant(np.array([["1/2", "3"]]))
    >>> F.matmul(x, F.transpose(x)).item()
    37/4
    """

    def __repr__(self) -> str:
        return "Rational()"

    def constant(self, x: Any) -> Array:
        """Integers, fractions, strings such as 3/7, or floats (which are dyadic), exactly."""
        x = np.asarray(x, dtype=object)
        out = np.empty(x.size, dtype=object)
        out[:] = [fraction(item) for item in x.reshape(-1).tolist()]
        return out.reshape(x.shape)

    def fraction(self, value: Fraction) -> Array:
        """A rational number."""
        return self.constant(np.array([[value]], dtype=object))

    def exp(self, x: Array, used: Array | None = None) -> Array:  # noqa: ARG002
        """Refused: exponentials of rationals are not rational."""
        raise SegreError("a softmax has no rational values; evaluate it in float64 or in balls")

    def reciprocal(self, x: Array) -> Array:
        """Entrywise inverse; raises UnluckyError at zero."""
        if not all(x.reshape(-1)):
            raise UnluckyError("division by zero")
        return np.asarray(1 / x)


def fraction(item: Any) -> fmpq:
    """One exact rational number; raises ValueError for what is none."""
    if isinstance(item, fmpq):
        return item
    if isinstance(item, bool):
        raise ValueError(f"{item!r} is not a number")
    if isinstance(item, str) and not _NUMBER.fullmatch(item.strip()):
        raise ValueError(f"{item[:40]!r} is not a number such as 3, 3/7 or 0.5")
    exact = Fraction(item)  # ValueError for NaN, OverflowError for infinity
    return fmpq(exact.numerator, exact.denominator)
