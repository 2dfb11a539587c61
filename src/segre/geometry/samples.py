"""How many generic inputs determine a function of an architecture, up to finitely many others?

The least N for which the Jacobian of the outputs at N generic inputs has the rank that it has at
all inputs together: the dimension of the space of functions. One more input adds at most as much as
the one before it did, and at least one dimension as long as something is missing.

That N inputs suffice is proved by a minor mod p of the size of the dimension. That fewer do not is
proved by an inequality (`restricted`) where there is one. Elsewhere it is what ranks at several
random points mod p say, which is not a proof: at an unlucky point a rank is too small.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

from segre.architectures import Architecture
from segre.errors import UnluckyError, UnsupportedError
from segre.fields.rank import Echelon
from segre.fields.threads import threads_for
from segre.finding import Finding, Status
from segre.geometry.at_any_size import by_theorem
from segre.geometry.dimension import finding_of, prove, without_computing
from segre.geometry.independence import only_in_balls
from segre.geometry.memory import DEFAULT_LIMIT, inputs_at_once
from segre.geometry.point import Point
from segre.geometry.progress import Progress, quiet
from segre.geometry.rank import JacobianRank
from segre.geometry.restricted import at_most, in_words, least_inputs
from segre.json_data import stated
from segre.models import Source, architecture
from segre.shown import Tabular
from segre.theorems import apply
from segre.values import quote

POINTS = 3  # random points at which ranks are compared where there is no proof


@dataclass(frozen=True)
class SampleCount(Tabular):
    """The smallest sufficient number of generic inputs, and the rank after each number of inputs.

    `lower` and `upper` are proved. `ranks[N - 1]` is the largest rank found at N inputs: a lower
    bound on the generic one, like every rank mod p.
    """

    spec: Architecture
    dimension: Finding
    ranks: tuple[int, ...]
    lower: int
    upper: int | None
    enough: str  # why so many inputs suffice, or seem to
    fewer: str  # why fewer do not
    points: int = 1
    seed: int = 0

    @property
    def outputs(self) -> int:
        """Numbers in one output."""
        return prod(self.spec.output_shape)

    @property
    def naive(self) -> int:
        """Dimensions divided by the numbers in one output, rounded up."""
        known = self.dimension.lower
        assert known is not None
        return -(-known // self.outputs)

    @property
    def value(self) -> int | None:
        """The number of inputs; None if it is only bounded."""
        return len(self.ranks) or (self.lower if self.lower == self.upper else None)

    @property
    def status(self) -> Status:
        """Proved if the bounds meet; otherwise computed at random points, or bounded."""
        if self.lower == self.upper:
            return "proved"
        return "computed" if self.ranks else "bounded"

    @property
    def how(self) -> str:
        """How it is known."""
        return f"{self.enough}; {self.fewer}"

    @property
    def gains(self) -> tuple[int, ...]:
        """What each input adds to the rank."""
        return tuple(b - a for a, b in zip((0, *self.ranks), self.ranks, strict=False))

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        spec, found = self.spec, self.dimension
        names = "spec digest samples status proved_by lower upper naive outputs parameters"
        return stated(
            self,
            f"{names} dimension dimension_lower dimension_upper ranks enough fewer points seed",
            **{"spec": str(spec), "digest": spec.digest, "parameters": spec.parameters},
            samples=self.value,
            proved_by=found.proved_by if self.status == "proved" else None,
            **{"dimension": found.value, "dimension_lower": found.lower},
            dimension_upper=found.upper,
        )


def samples(
    spec: Source, seed: int = 0, *, memory: int = DEFAULT_LIMIT, progress: Progress = quiet
) -> SampleCount:
    """The smallest number of generic inputs whose outputs determine the function.

    >>> found = samples("lightning/d=3,3/a=1/t=3")
    >>> found.value, found.status, found.naive, found.ranks
    (4, 'proved', 2, (5, 8, 11, 13))
    """
    net = architecture(spec)
    _require_generic_inputs(net)
    known = without_computing(net)
    if known is not None:
        return _bounded(net, known, seed)
    proof = prove(net, seed, symmetries=False, memory=memory, progress=progress)
    if not isinstance(proof.minor, JacobianRank):
        raise UnsupportedError(
            f"spec {quote(str(net))}: its rank mod p could not be computed, which counting inputs "
            "needs; try another --seed, or segre dim"
        )
    found = finding_of(proof, seed)
    if found.value is None:
        applied = apply(net)
        if applied is not None and applied.holds:
            found = by_theorem(applied)
    target = found.lower
    assert target is not None
    point, ranks = proof.point, _ranks(proof.point, target, progress)
    lower, points = least_inputs(net, target), 1
    if lower < len(ranks):
        every = [(ranks, point), *_other_ranks(point, seed, target, progress)]
        shortest, point = min(every, key=lambda one: len(one[0]))
        ranks = [max(own[n] for own, _ in every) for n in range(len(shortest))]
        points = len(every)
    exact = found.value is not None
    return SampleCount(
        spec=net,
        dimension=found,
        ranks=tuple(ranks),
        lower=lower,
        upper=len(ranks) if exact else None,
        enough=_enough(point, len(ranks), target, exact=exact),
        fewer=_fewer(net, lower, ranks, points),
        points=points,
        seed=seed,
    )


def _require_generic_inputs(spec: Architecture) -> None:
    if spec.discrete:
        raise UnsupportedError(
            f"spec {quote(str(spec))}: its inputs are token sequences, which are not generic "
            "points; use the same layers without vocab, whose inputs are embeddings"
        )
    problem = only_in_balls(spec)
    if problem is not None:
        raise UnsupportedError(
            f"spec {quote(str(spec))}: {problem}, so ranks at given inputs mod p prove nothing; "
            "segre variety samples does not support this architecture"
        )


def _ranks(point: Point, target: int, progress: Progress) -> list[int]:
    """The rank after each input, until it is the target."""
    spec = point.spec
    outputs = prod(spec.output_shape)
    space = Echelon(spec.parameters, point.field, capacity=target)
    ranks: list[int] = []
    with threads_for(spec.parameters):
        while space.rank < target:
            missing = -(-(target - space.rank) // outputs)
            count = min(missing, inputs_at_once(spec))
            rows = point.rows_at(len(ranks), count).reshape(count, outputs, -1)
            for own in rows:
                if not space.add(own):
                    raise UnluckyError(
                        f"the random point is special: rank {space.rank} instead of {target}; try "
                        "another --seed"
                    )
                ranks.append(space.rank)
            progress("rank by number of inputs", space.rank, target)
    return ranks


def _other_ranks(
    first: Point, seed: int, target: int, progress: Progress
) -> Iterator[tuple[list[int], Point]]:
    """The ranks at further points, each with its own seed, so that there are `POINTS` in all."""
    found = 1
    for attempt in range(4 * POINTS):
        point = Point.draw(first.spec, seed, attempt)
        if found == POINTS or point.field.seed == first.field.seed:
            continue
        with suppress(UnluckyError):
            yield _ranks(point, target, progress), point
            found += 1


def _enough(point: Point, count: int, target: int, *, exact: bool) -> str:
    said = f"rank {target} at {in_words(count)} mod {point.field.p} (seed {point.field.seed})"
    if exact:
        return f"{said}, which is the dimension"
    return f"{said}; it is not proved that this is the dimension"


def _fewer(spec: Architecture, lower: int, ranks: list[int], points: int) -> str:
    inequality = at_most(spec, lower - 1)
    if lower >= len(ranks):
        said = f"rank at most {inequality.value} at {in_words(lower - 1)}: "
        return said + inequality.evidence.statement
    said = (
        f"rank {ranks[-2]} at {in_words(len(ranks) - 1)}: computed at {points} random points mod "
    )
    said += f"p, not proved. Proved: rank at most {inequality.value} at {in_words(lower - 1)} "
    return f"{said}({inequality.evidence.statement})"


def _bounded(spec: Architecture, found: Finding, seed: int) -> SampleCount:
    """Bounds for an architecture whose dimension is known without computing."""
    target = found.value
    if target is None:
        raise UnsupportedError(
            f"spec {quote(str(spec))}: too large to compute, and no theorem gives its dimension; "
            "try a smaller architecture of the same kind"
        )
    lower = least_inputs(spec, target)
    return SampleCount(
        spec=spec,
        dimension=found,
        ranks=(),
        lower=lower,
        upper=target,
        enough="every generic input adds at least one dimension until the rank is full",
        fewer=_fewer(spec, lower, [], 1),
        seed=seed,
    )
