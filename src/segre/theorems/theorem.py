"""What is a theorem about dimensions, and what does it say about one architecture?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from segre.architectures import Architecture
from segre.finding import Bound, Evidence
from segre.json_data import stated

PAGE = "docs/theorems.md"
STATEMENT = "statement (T) of docs/soundness.md"  # on normal distribution functions


@dataclass(frozen=True)
class Hypothesis:
    """An integer condition with its numbers filled in.

    >>> condition = Hypothesis("C1", "V >= 2d + 2", 11, ">=", 18)
    >>> condition.holds, condition.missing
    (False, 7)
    >>> str(condition)
    'C1: V >= 2d + 2 (11 >= 18)'
    """

    name: str
    says: str
    left: int
    relation: Literal[">=", ">"]
    right: int

    @property
    def holds(self) -> bool:
        """Whether it is true."""
        return self.missing <= 0

    @property
    def missing(self) -> int:
        """How much the left side would have to grow; at most 0 if the condition holds."""
        return self.right - self.left + (self.relation == ">")

    @property
    def failure(self) -> str:
        """Why it does not hold.

        >>> Hypothesis("C1", "V >= 2d + 2", 11, ">=", 18).failure
        'C1 needs V >= 2d + 2, but 11 < 18 (7 short)'
        """
        against = {">=": "<", ">": "<="}[self.relation]
        return (
            f"{self.name} needs {self.says}, but {self.left:,} {against} {self.right:,} "
            f"({self.missing:,} short)"
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.says} ({self.left:,} {self.relation} {self.right:,})"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return stated(self, "name says left relation right holds")


@dataclass(frozen=True)
class Theorem:
    """A statement of docs/theorems.md: the designs, the conditions, and the count."""

    name: str
    title: str
    misfits: Callable[[Any], Sequence[str]]  # choices of a spec that it does not cover
    hypotheses: Callable[[Any], Iterable[Hypothesis]]  # their names without that of the theorem
    symmetries: Callable[[Any], dict[str, int]]  # all of them, counted by name
    trusts: tuple[str, ...] = ()  # published theorems that the proof uses
    section: str = ""  # of the page, where it is not that of the name

    @property
    def page(self) -> str:
        """Where its proof is."""
        return f"{PAGE}#theorem-{self.section or self.name.lower()}"

    def covers(self, spec: Architecture) -> bool:
        """Whether the theorem covers this design, of its own kind of network."""
        return not self.misfits(spec)

    def applied(self, spec: Architecture) -> Application:
        """The theorem applied to an architecture that it covers."""
        counts = {name: count for name, count in self.symmetries(spec).items() if count}
        named = (replace(one, name=self.name + one.name) for one in self.hypotheses(spec))
        return Application(self, spec, tuple(named), counts)


@dataclass(frozen=True)
class Application:
    """A theorem, an architecture, and the hypotheses with the numbers of this architecture."""

    theorem: Theorem
    spec: Architecture = field(repr=False)
    hypotheses: tuple[Hypothesis, ...]
    symmetries: dict[str, int]

    @property
    def redundant(self) -> int:
        """Dimension of the symmetries, if the hypotheses hold."""
        return sum(self.symmetries.values())

    @property
    def holds(self) -> bool:
        """Whether all hypotheses hold; otherwise the theorem says nothing about the dimension."""
        return all(one.holds for one in self.hypotheses)

    @property
    def failing(self) -> tuple[Hypothesis, ...]:
        """The hypotheses that do not hold."""
        return tuple(one for one in self.hypotheses if not one.holds)

    @property
    def dimension(self) -> int | None:
        """Parameters minus symmetries; None unless the hypotheses hold."""
        return self.spec.parameters - self.redundant if self.holds else None

    @property
    def trusts(self) -> list[str]:
        """What the proof rests on beside its page: by name, published theorems and (T)."""
        return [*self.theorem.trusts, *([STATEMENT] if self.spec.normal_cdf else [])]

    @property
    def bound(self) -> Bound:
        """The dimension, as a lower and an upper bound."""
        if self.dimension is None:
            raise ValueError(f"theorem {self.theorem.name} does not apply to {self.spec}")
        return Bound(self.dimension, Evidence("theorem", self.words, self.document()))

    @property
    def words(self) -> str:
        """In one sentence."""
        theorem = self.theorem
        if self.holds:
            number = len(self.hypotheses)
            conditions = f"{number} hypotheses hold" if number != 1 else "its hypothesis holds"
            return f"theorem {theorem.name} ({theorem.title}): {conditions}; proof: {theorem.page}"
        short = "; ".join(one.failure for one in self.failing)
        return f"theorem {theorem.name} ({theorem.title}) does not apply: {short}"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        theorem = self.theorem
        made = {"name": theorem.name, "title": theorem.title, "proof": theorem.page}
        names = "name title holds dimension symmetries hypotheses proof trusts"
        return stated(self, names, **made)
