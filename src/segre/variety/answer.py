"""A number that is known by a formula, by a count mod p, or by both: what does each prove?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from segre.errors import SegreError, TooLargeError, UnluckyError
from segre.finding import Finding, Status
from segre.geometry.dimension import dimension
from segre.geometry.progress import Progress
from segre.json_data import stated
from segre.models import Source, only
from segre.polynomial.spec import Polynomial
from segre.shown import Shown
from segre.variety.counting import Count
from segre.variety.families import ambient, family
from segre.variety.formulas import Family, Formula, LinearSpace
from segre.variety.groebner import ExhaustedError, Limits

SECONDS = 20.0
_MOST_EXPECTED = 500
_MOST_WEIGHTS = 60
_ANOTHER = 1 << 20  # seeds are not those of the first try


@dataclass(frozen=True)
class Number(Shown):
    """What is counted, its formula and the count; `reason` says why one of them is missing."""

    spec: Polynomial
    dimension: int | None
    variety: str
    formula: Formula | None
    count: Count | None
    reason: str = ""

    @property
    def value(self) -> int | None:
        """The number by its formula; None if there is no formula."""
        return None if self.formula is None else self.formula.value

    @property
    def lower(self) -> int | None:
        """The proved lower bound."""
        return self.value if self.count is None else self.count.functions

    @property
    def upper(self) -> int | None:
        """The proved upper bound."""
        return self.value

    @property
    def status(self) -> Status:
        """`proved` by a formula, `lower-bound` by a count alone."""
        if self.formula is not None:
            return "proved"
        return "not run" if self.count is None else "lower-bound"

    @property
    def how(self) -> str:
        """The formula, and the count."""
        known = [] if self.formula is None else [self.formula.says]
        if self.count is not None:
            known.append(
                f"{self.count.functions} counted mod {self.count.p} with seed {self.count.seed}"
            )
        return "; ".join(known) or self.reason

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        names = "spec digest dimension variety value lower upper status formula count reason"
        return stated(self, names, spec=str(self.spec), digest=self.spec.digest)


def number(
    source: Source,
    question: str,
    formula_of: Callable[[Family], Formula | None],
    count: Callable[[Polynomial, int, int, Limits], Count],
    seed: int,
    seconds: float,
    memory: int,
    progress: Progress,
) -> Number:
    """A number of a function variety: by the formula of its family, and counted mod p."""
    require_seed(seed)
    net = polynomial(source, question)
    size = proved_dimension(net, seed, memory, progress)
    named = known_family(net, size)
    formula = None if named is None else formula_of(named)
    limits = Limits(seconds, memory, progress)  # the time of the count begins now
    points, reason = counted(net, size, formula, count, seed, limits)
    variety = "no formula is known for this variety" if named is None else named.name
    return Number(net, None if size is None else size.value, variety, formula, points, reason)


def polynomial(source: Source, question: str) -> Polynomial:
    """The polynomial network of a spec; other architectures are refused by name."""
    return only(
        Polynomial,
        source,
        f"{question} is supported only for polynomial networks; allowed: "
        "poly/... and cnn/... specs, for example cnn/k=2,2/degree=2",
    )


def require_seed(seed: int) -> None:
    """Refuse seeds out of range."""
    if not isinstance(seed, int) or not 0 <= seed < 2**62:
        raise SegreError(f"seed {seed!r} is not allowed; allowed: whole numbers 0 to 2^62 - 1")


def known_family(spec: Polynomial, found: Finding | None) -> Family | None:
    """The family of a network, also where it fills all polynomials of its degree."""
    named = family(spec)
    if named is None and not spec.convolutional and found is not None:
        whole = ambient(spec)
        if found.value == whole:
            return LinearSpace("all polynomials of this degree")
    return named


def proved_dimension(
    spec: Polynomial, seed: int, memory: int, progress: Progress
) -> Finding | None:
    """The dimension of the functions; None if it is past a limit, and there is a formula."""
    has_formula = family(spec) is not None
    if has_formula and spec.parameters > _MOST_WEIGHTS:
        return None
    try:
        return dimension(spec, seed=seed, memory=memory, progress=progress)
    except TooLargeError:
        if has_formula:
            return None
        raise


def counted(
    spec: Polynomial,
    found: Finding | None,
    formula: Formula | None,
    count: Callable[[Polynomial, int, int, Limits], Count],
    seed: int,
    limits: Limits,
) -> tuple[Count | None, str]:
    """A count by elimination, or why there is none. It must not contradict the formula."""
    if formula is not None and formula.value > _MOST_EXPECTED:
        return None, f"not counted: more than {_MOST_EXPECTED} are expected"
    if spec.parameters > _MOST_WEIGHTS:
        return None, f"not counted: more than {_MOST_WEIGHTS} weights"
    if found is None:
        return None, "not counted: over the memory limit"
    if found.value is None:
        return None, "not counted: the dimension of its function space is not proved"
    best: Count | None = None
    for attempt in range(2):
        try:
            one = count(spec, found.value, seed + attempt * _ANOTHER, limits)
        except (ExhaustedError, UnluckyError) as error:
            return best, "" if best else f"not counted: {error}"
        best = one if best is None or one.functions > best.functions else best
        if formula is None or best.functions >= formula.value:
            break
    assert best is not None
    if formula is not None and best.functions != formula.value:
        raise AssertionError(
            f"{spec}: the formula gives {formula.value}, elimination gives {best.functions}; this "
            "is a bug in segre, please report it"
        )
    return best, ""
