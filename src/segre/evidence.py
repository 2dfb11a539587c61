"""How is a number known? Bounds with their evidence, ranks at random points, and symmetries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from segre.result import BITS, Status

GROUPS = ("QK", "VO", "MLP", "norms and biases", "shifts", "residual")
HOLDS = ("exact", "eps=0", "softmax")


@dataclass(frozen=True)
class Evidence:
    """How a number is known: the kind of argument, a sentence, and the data behind it."""

    kind: str
    statement: str
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Bound:
    """A number and the evidence that it bounds the dimension."""

    value: int
    evidence: Evidence


@dataclass(frozen=True)
class Sample:
    """The rank at independent random points, drawn from a hash of the spec and the seed.

    `error` is the base-2 logarithm of a bound on the chance that the generic rank is larger and all
    points missed it; None if no bound is known. It follows from the degree and the height (its
    base-2 logarithm) of a minor. `limits` says why there is none.
    """

    rank: int
    points: int
    seed: int
    error: float | None = None
    degree: int | None = None
    height: int | None = None
    limits: str = ""

    @property
    def status(self) -> Status:
        """How surely the rank is the dimension, if it is a lower bound."""
        return "likely" if self.error is None else "certain"

    @property
    def words(self) -> str:
        """The same in words."""
        if self.error is not None:
            return f"certain (error < 2^-{BITS})"
        return f"likely ({self.points} random points agree)"

    @property
    def how(self) -> str:
        """What was computed, in a sentence."""
        at = f"{self.points} independent random points mod random primes"
        if self.error is not None:
            return (
                f"the rank is {self.rank} at {at}; all would miss a larger one with a probability "
                f"below 2^{ceil(self.error)} (degree {self.degree:,}, height 2^{self.height:,})"
            )
        return f"the rank is at most {self.rank} at {at}; the error has no bound: {self.limits}"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "rank": self.rank,
            "points": self.points,
            "seed": self.seed,
            "log2_error": self.error,
            "degree": self.degree,
            "log2_height": self.height,
            "limits": self.limits,
        }


@dataclass(frozen=True)
class Symmetry:
    """One piece of the fiber: a family of changes of the weights that keep the function."""

    name: str
    where: str
    dimension: int
    group: str = ""  # of a transformer's redundancy: one of GROUPS
    holds: str = "exact"  # one of HOLDS

    def document(self) -> dict[str, Any]:
        """The piece as plain data, for JSON."""
        plain = {"name": self.name, "where": self.where, "dimension": self.dimension}
        return {**plain, "group": self.group, "holds": self.holds} if self.group else plain
