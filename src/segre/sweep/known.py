"""What does a row of a store, or a fresh architecture, say about a formula?

Bounds that are proved refute what is outside of them. The exact rank at a random point mod p is the
dimension, but for an accident of probability about 1e-6: a formula has to give it, also where the
upper bound is larger. A rank found at a few real points, in balls, may fall short of the
dimension: it is a bound, and no more, unless it meets the upper one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class Known:
    """Bounds, and the value that a formula must have, if it is known."""

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
