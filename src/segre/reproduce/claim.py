"""What does a work claim, and does it hold here?

A claim has the value that is expected, where that value comes from, and what was measured for
each seed. Its status follows from these: nobody writes it down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from math import isfinite
from statistics import fmean, stdev
from typing import Any, Literal

Source = Literal[
    "paper", "paper, limit chosen here", "published code rerun", "closed form", "derived here"
]
Relation = Literal["=", "<=", ">=", "true", "none"]
Verdict = Literal["reproduced", "not reproduced", "not testable here"]
SOURCES: dict[Source, str] = {
    "paper": "stated or shown in the paper",
    "paper, limit chosen here": "stated in the paper without a number; the limit is segre's",
    "published code rerun": "measured before with the authors' own code",
    "closed form": "a formula, evaluated here",
    "derived here": "derived or first measured for segre; the paper does not state it",
}


@dataclass(frozen=True)
class Claim:
    """One claim: what is said, what is expected, what was measured.

    >>> PAPER("A third of the paths").near(1 / 3, [0.33, 0.34, 0.33], tolerance=0.01).status
    'reproduced'
    """

    says: str
    source: Source
    relation: Relation = "none"
    expected: float | None = None
    tolerance: float = 0.0
    measured: tuple[float | None, ...] = ()  # for each seed, or once if nothing is random
    by_mean: bool = False  # the mean over seeds is compared, not every seed
    reason: str = ""  # why it cannot be tested, or the numbers behind a yes or no

    def near(
        self, expected: float, measured: Sequence[float], *, tolerance: float, by_mean: bool = False
    ) -> Claim:
        """The measured value is the expected one, within an absolute tolerance."""
        judged = replace(self, tolerance=tolerance, by_mean=by_mean)
        return judged._compared("=", measured, expected)

    def at_most(self, expected: float, measured: Sequence[float]) -> Claim:
        """The measured value is no larger."""
        return self._compared("<=", measured, expected)

    def at_least(self, expected: float, measured: Sequence[float]) -> Claim:
        """The measured value is no smaller."""
        return self._compared(">=", measured, expected)

    def holds(self, measured: Sequence[bool], because: str = "") -> Claim:
        """It is so, or is not, for each seed; `because` has the numbers that decide it."""
        return replace(self, reason=because)._compared("true", [*map(float, measured)])

    def untestable(self, reason: str) -> Claim:
        """No experiment on this machine could show it; the reason says why."""
        return replace(self, reason=reason)

    def _compared(
        self, relation: Relation, measured: Sequence[float], expected: float | None = None
    ) -> Claim:
        return replace(self, relation=relation, expected=expected, measured=tuple(measured))

    @property
    def _known(self) -> list[float]:
        return [value for value in self.measured if value is not None]

    @property
    def status(self) -> Verdict:
        """Whether it holds, for every seed (or in the mean, if so judged)."""
        if self.relation == "none":
            return "not testable here"
        known = list(filter(isfinite, self._known))
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
    def why(self) -> str:
        """Why it is not reproduced or cannot be tested.

        >>> PAPER("x").near(1, [1.06, 0.97], tolerance=0.05).why
        'further than 0.05 from 1 in 1 of 2 runs: 1.06'
        """
        if self.status == "reproduced" or self.reason:
            return "" if self.status == "reproduced" else self.reason
        values = [self.mean] if self.by_mean else list(self.measured)
        wrong = [v for v in values if v is None or not isfinite(v) or not self._fits(v)]
        if not values:
            return "nothing was measured"
        if self.relation == "true":
            return f"not so in {len(wrong)} of {len(values)} runs"
        limit = f"{self.expected or 0:.4g}"
        said = {"<=": "above", ">=": "below"}.get(
            self.relation, f"further than {self.tolerance:.4g} from"
        )
        where = "in the mean" if self.by_mean else f"in {len(wrong)} of {len(values)} runs"
        shown = ", ".join("no number" if v is None else f"{v:.4g}" for v in wrong)
        return f"{said} {limit} {where}: {shown}"

    @property
    def mean(self) -> float | None:
        """Over seeds."""
        return fmean(self._known) if self._known else None

    @property
    def spread(self) -> float:
        """The standard deviation over seeds."""
        return stdev(self._known) if len(self._known) > 1 else 0.0

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        judged = {"status": self.status, "mean": self.mean, "spread": self.spread}
        return asdict(self) | {"measured": list(self.measured), "reason": self.why} | judged

    @classmethod
    def of(cls, document: dict[str, Any]) -> Claim:
        """Read back; the status is computed again."""
        own = {one.name: document[one.name] for one in fields(cls)}
        found = cls(**{**own, "measured": tuple(own["measured"])})
        follows = replace(found, reason="")  # a reason that the numbers give is not kept
        return follows if follows.why == found.reason else found


# What is said, by where the expected values come from; a comparison makes a whole claim of it.
PAPER = partial(Claim, source="paper")
LIMITED = partial(Claim, source="paper, limit chosen here")
RERUN = partial(Claim, source="published code rerun")
FORMULA = partial(Claim, source="closed form")
DERIVED = partial(Claim, source="derived here")
