"""When is a difference more than rounding? Limits, in multiples of the measured effect.

If one or both copies were rounded once, they differ by at most 1, or by chance a little more. In
full precision there is room for many roundings. In half precision there is not: a few steps of
training change as much as rounding does.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

HALF = 2.0**-12  # coarser types than this are half precision, or less
CHANCE = 3.0  # by how much chance raises a ratio of two effects on n numbers, times sqrt(n)
SHARED = 4  # a gain's rounding moves a whole column: this many numbers per column are independent


@dataclass(frozen=True)
class Limits:
    """By how many times the effect of rounding a block, or one of its members, may differ."""

    together: float  # all members of a matrix or table: more is doubtful
    alone: float  # one member, or a vector: few numbers, whose errors often go together
    certain: float  # this many times either limit is a difference

    @classmethod
    def of(cls, roundoff: float) -> Limits:
        """The limits for a storage type."""
        return cls(1.15, 4.0, 2.0) if roundoff > HALF else cls(16.0, 32.0, 4.0)

    def limit(self, numbers: float, *, many: bool) -> float:
        """The limit for the given number of entries; `many` for a whole matrix or table."""
        return (self.together if many else self.alone) * (1 + CHANCE / sqrt(numbers))
