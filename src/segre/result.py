"""What is an answer, and how surely is it known?

Every answer is a `Result`: it has a value, bounds, a status, a description of how it is known, and
a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

from segre.shown import Shown

ProvedBy = Literal["computation", "theorem"]
BITS = 60  # an error below 2^-60 is called certain
OWN = "segre's own, docs/theorems.md; hypotheses checked"  # of every theorem that is applied
# How surely an answer is known: what is proved or computed exactly, what all of many random points
# say (certain with a bound on the error, else likely), what is computed at random points, then
# bounds, numbers that were measured or fitted, and guesses. A page labels what is proved by what
# proves it.
Status = Literal[
    "proved",
    "proved by computation",
    "proved by theorem",
    "exact",
    "certain",
    "likely",
    "computed",
    "bounded",
    "lower-bound",
    "upper-bound",
    "measured",
    "least-squares",
    "fitted",
    "estimated",
    "estimate",
    "not run",
]


def labelled(status: Status, by: ProvedBy | None) -> Status:
    """The label of an answer: a proof by computation and one by a theorem have different ones."""
    if status != "proved" or by is None:
        return status
    return "proved by computation" if by == "computation" else "proved by theorem"


def proved(theorem: str | None, *, full: bool = True) -> str:
    """The label in words: what proves a dimension; in full, with what has to be trusted.

    >>> proved(None), proved("C", full=False)
    ('proved by computation', 'proved by theorem C')
    """
    if theorem is None:
        return "proved by computation"
    return f"proved by theorem {theorem} ({OWN})" if full else f"proved by theorem {theorem}"


def claim_in_words(claim: Mapping[str, Any], theorem: str | None) -> str:
    """What a certificate claims, and what proves it."""
    if claim["status"] != "bounds":
        certain = claim["status"] == "certain"
        known = f"certain (error < 2^-{BITS}, by random points)" if certain else proved(theorem)
        return f"dimension {claim['upper']:,} of {claim['parameters']:,} parameters, {known}"
    return (
        f"{claim['lower']:,} <= dimension <= {claim['upper']:,} of {claim['parameters']:,} "
        "parameters, both bounds proved by computation"
    )


@runtime_checkable
class Documented(Protocol):
    """Anything that can be printed in every format."""

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        ...


@runtime_checkable
class Result(Documented, Protocol):
    """What every answer provides."""

    @property
    def value(self) -> Any:
        """The answer; None if it is not known."""
        ...

    @property
    def lower(self) -> int | None:
        """A lower bound; None if no bound is known, or the answer is not a number."""
        ...

    @property
    def upper(self) -> int | None:
        """An upper bound; None if no bound is known, or the answer is not a number."""
        ...

    @property
    def status(self) -> Status:
        """How certain the answer is."""
        ...

    @property
    def how(self) -> str:
        """How it is known, in words."""
        ...


class Unbounded(Shown):
    """An answer that is not a number between bounds: a verdict, a table, curves."""

    @property
    def lower(self) -> None:
        """No bound."""
        return

    @property
    def upper(self) -> None:
        """No bound."""
        return
