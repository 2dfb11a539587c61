"""A dimension and how it is known: a proof and an estimate are different types.

The answer about a dimension is a `Finding`: `lower` and `upper` are bounds that hold,
each with its evidence. If they meet, there is a `value`, and the status is `proved`; otherwise
there is no value. If the rank at independent random points is the lower bound, the status is
`certain` (with a bound on the error) or `likely` (without), and the dimension has a `number`, which
is never called proved. A floating-point rank, or a count by formulas that are not proved for a
design, is an `estimate`, which is neither a value nor a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Literal, Protocol, runtime_checkable

from segre.architectures import Architecture
from segre.shown import Shown, Tabular

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
GROUPS = ("QK", "VO", "MLP", "norms and biases", "shifts", "residual")
HOLDS = ("exact", "eps=0", "softmax")


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


@dataclass(frozen=True)
class Evidence:
    """How a number is known: the kind of argument, a sentence, and the data behind it."""

    kind: str
    statement: str
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON; of a theorem all that was used."""
        theorem = {"theorem": dict(self.data)} if self.kind == "theorem" else {}
        return {"kind": self.kind, "statement": self.statement, **theorem}


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


@dataclass(frozen=True)
class Finding(Tabular):
    """The dimension of a network's space of functions, and how it is known.

    >>> from segre.spec import Network
    >>> bound = Bound(7, Evidence("example", "somebody says so"))
    >>> found = Finding.from_bounds(Network.parse("softmax/d=2,2/a=1/t=2"), bound, bound)
    >>> found.value, found.status, found.fiber_dimension
    (7, 'proved', 1)
    """

    spec: Architecture
    status: Status
    lower: int | None = None
    upper: int | None = None
    estimate: int | None = None
    lower_evidence: Evidence | None = None
    upper_evidence: Evidence | None = None
    estimate_evidence: Evidence | None = None
    symmetries: tuple[Symmetry, ...] = ()
    notes: tuple[str, ...] = ()
    seed: int = 0
    regions: tuple[str, ...] = ()  # what makes the function piecewise: the largest over its regions
    sample: Sample | None = None  # if its rank is the lower bound, and the bounds do not meet

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return self.spec.parameters

    @property
    def value(self) -> int | None:
        """The dimension; None unless it is proved: the bounds meet."""
        return self.lower if self.lower == self.upper else None

    @property
    def number(self) -> int | None:
        """The dimension, proved, certain or likely, as `status` says; None if it is not known."""
        return self.value if self.sample is None else self.sample.rank

    @property
    def unexplained(self) -> int:
        """Redundant parameters that no known symmetry explains, as surely as `status` says."""
        if self.sample is None or self.upper is None:
            return 0
        known = sum(symmetry.dimension for symmetry in self.symmetries)
        return (self.parameters - known if known else self.upper) - self.sample.rank

    def with_sample(self, sample: Sample | None) -> Finding:
        """The same finding with the rank at random points, if it settles what is not proved."""
        if sample is None or self.value is not None or sample.rank != self.lower:
            return self
        return replace(self, status=sample.status, sample=sample)

    @property
    def how(self) -> str:
        """How the bounds, or the estimate, are known."""
        known = (self.lower_evidence, self.upper_evidence, self.estimate_evidence)
        said = [evidence.statement for evidence in known if evidence is not None]
        return "; ".join(said if self.sample is None else [*said, self.sample.how])

    @property
    def theorem(self) -> Mapping[str, Any] | None:
        """The theorem behind the lower bound, with its hypotheses; None if no theorem was used."""
        known = self.lower_evidence
        return known.data if known is not None and known.kind == "theorem" else None

    @property
    def proved_by(self) -> ProvedBy | None:
        """What proves the value; None without a value."""
        if self.value is None:
            return None
        return "computation" if self.theorem is None else "theorem"

    @property
    def label(self) -> Status:
        """The label that pages show beside it."""
        if self.sample is not None:
            return self.sample.status
        if self.value is None:
            return "bounded" if self.estimate is None else "estimated"
        return labelled("proved", self.proved_by)

    def proof(self, *, full: bool = True) -> str:
        """How the number is known, in words; empty without one."""
        if self.sample is not None:
            return self.sample.words
        if self.value is None:
            return ""
        return proved(None if self.theorem is None else self.theorem["name"], full=full)

    @property
    def fiber_dimension(self) -> int | None:
        """Dimension of the weights with the same function: parameters - number; None without a
        number."""
        return None if self.number is None else self.parameters - self.number

    @property
    def redundant(self) -> int | None:
        """Parameters minus the number or the upper bound or, if there is none, the estimate."""
        if self.sample is not None:
            return self.parameters - self.sample.rank
        left = self.estimate if self.upper is None else self.upper
        return None if left is None else self.parameters - left

    @property
    def redundancy(self) -> dict[str, Any] | None:
        """Redundant parameters of a transformer: in total, by piece, and by condition."""
        if not any(symmetry.group for symmetry in self.symmetries):
            return None
        pieces: dict[str, int] = dict.fromkeys(GROUPS, 0)
        holds: dict[str, int] = dict.fromkeys(HOLDS, 0)
        for symmetry in self.symmetries:
            pieces[symmetry.group] += symmetry.dimension
            holds[symmetry.holds] += symmetry.dimension
        return {"total": sum(pieces.values()), "pieces": pieces, "holds": holds}

    @classmethod
    def from_bounds(
        cls,
        spec: Architecture,
        lower: Bound | None,
        upper: Bound | None,
        *,
        symmetries: tuple[Symmetry, ...] = (),
        notes: tuple[str, ...] = (),
        regions: tuple[str, ...] = (),
        seed: int = 0,
    ) -> Finding:
        """The finding that follows from one or two bounds."""
        if lower is not None and upper is not None and lower.value > upper.value:
            raise AssertionError(
                f"{spec}: lower bound {lower.value} exceeds upper bound {upper.value}; "
                "this is a bug in segre, please report it"
            )
        if lower is None and upper is None:
            raise ValueError("a finding needs at least one bound")
        status: Status = "upper-bound" if lower is None else "lower-bound"
        if lower is not None and upper is not None and lower.value == upper.value:
            status = "proved"
        known: dict[str, Any] = {}
        for side, bound in (("lower", lower), ("upper", upper)):
            if bound is not None:
                known |= {side: bound.value, f"{side}_evidence": bound.evidence}
        return cls(
            spec, status, **known, symmetries=symmetries, notes=notes, regions=regions, seed=seed
        )

    def document(self) -> dict[str, Any]:
        """The finding as plain data, for JSON."""
        known = {"lower": self.lower_evidence, "upper": self.upper_evidence}
        known["estimate"] = self.estimate_evidence

        def own(*names: str) -> dict[str, Any]:
            return {name: getattr(self, name) for name in names}

        return {
            "spec": str(self.spec),
            "digest": self.spec.digest,
            "parameters": self.parameters,
            "dimension": self.number,
            **own("fiber_dimension", "status", "label", "proved_by"),
            "regions": list(self.regions),
            **own("lower", "upper", "estimate"),
            "evidence": {end: one and one.document() for end, one in known.items()},
            **({} if self.sample is None else {"random": self.sample.document()}),
            "symmetries": [symmetry.document() for symmetry in self.symmetries],
            **({} if self.redundancy is None else own("redundancy")),
            "notes": list(self.notes),
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Findings(Tabular):
    """Several architectures side by side, with the names that were given."""

    names: tuple[str, ...]
    found: tuple[Finding, ...]

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        named = zip(self.names, self.found, strict=True)
        return {"models": [{"name": name, **one.document()} for name, one in named]}
