"""What does a work claim, and does it hold here?

A claim has the value that is expected, where that value comes from, and what was measured for
each seed. Its status follows from these: nobody writes it down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from math import isfinite
from statistics import fmean, stdev
from typing import Any, Literal

Source = Literal["paper", "published code rerun", "closed form", "derived here"]
Relation = Literal["=", "<=", ">=", "true", "none"]
Verdict = Literal["reproduced", "not reproduced", "not testable here"]
SOURCES: dict[Source, str] = {
    "paper": "stated or shown in the paper",
    "published code rerun": "measured before with the authors' own code",
    "closed form": "a formula, evaluated here",
    "derived here": "derived or first measured for segre; the paper does not state it",
}


@dataclass(frozen=True)
class Claim:
    """One claim: what is said, what is expected, what was measured.

    >>> near("A third of the paths", "paper", 1 / 3, [0.33, 0.34, 0.33], tolerance=0.01).status
    'reproduced'
    """

    says: str
    source: Source
    relation: Relation
    expected: float | None = None
    tolerance: float = 0.0
    measured: tuple[float | None, ...] = ()  # for each seed, or once if nothing is random
    by_mean: bool = False  # the mean over seeds is compared, not every seed
    reason: str = ""  # why it cannot be tested

    @property
    def status(self) -> Verdict:
        """Whether it holds, for every seed (or in the mean, if so judged)."""
        if self.relation == "none":
            return "not testable here"
        known = [value for value in self.measured if value is not None and isfinite(value)]
        if not known or len(known) < len(self.measured):
            return "not reproduced"
        values = [fmean(known)] if self.by_mean else known
        return "reproduced" if all(map(self._fits, values)) else "not reproduced"

    def _fits(self, value: float) -> bool:
        if self.relation == "true":
            return bool(value)
        expected = 0.0 if self.expected is None else self.expected
        apart = value - expected
        if self.relation == "=":
            return abs(apart) <= self.tolerance
        return apart <= self.tolerance if self.relation == "<=" else -apart <= self.tolerance

    @property
    def mean(self) -> float | None:
        """Over seeds."""
        known = [value for value in self.measured if value is not None]
        return fmean(known) if known else None

    @property
    def spread(self) -> float:
        """The standard deviation over seeds."""
        known = [value for value in self.measured if value is not None]
        return stdev(known) if len(known) > 1 else 0.0

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        own = asdict(self) | {"measured": list(self.measured)}
        return own | {"status": self.status, "mean": self.mean, "spread": self.spread}

    @classmethod
    def of(cls, document: dict[str, Any]) -> Claim:
        """Read back; the status is computed again."""
        own = {one.name: document[one.name] for one in fields(cls)}
        return cls(**{**own, "measured": tuple(own["measured"])})


def near(
    says: str,
    source: Source,
    expected: float,
    measured: Sequence[float],
    *,
    tolerance: float,
    by_mean: bool = False,
) -> Claim:
    """The measured value is the expected one, within an absolute tolerance."""
    return Claim(says, source, "=", expected, tolerance, tuple(measured), by_mean)


def at_most(
    says: str, source: Source, expected: float, measured: Sequence[float], *, by_mean: bool = False
) -> Claim:
    """The measured value is no larger."""
    return Claim(says, source, "<=", expected, 0.0, tuple(measured), by_mean)


def at_least(
    says: str, source: Source, expected: float, measured: Sequence[float], *, by_mean: bool = False
) -> Claim:
    """The measured value is no smaller."""
    return Claim(says, source, ">=", expected, 0.0, tuple(measured), by_mean)


def holds(says: str, source: Source, measured: Sequence[bool]) -> Claim:
    """Something is so, or is not, for each seed."""
    return Claim(says, source, "true", None, 0.0, tuple(float(value) for value in measured))


def not_testable(says: str, source: Source, reason: str) -> Claim:
    """No experiment on this machine could show it; the reason says why."""
    return Claim(says, source, "none", reason=reason)
