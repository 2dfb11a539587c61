"""The functional dimension of an architecture.

From below: the rank of the Jacobian at a random point mod p. A non-zero minor there is the
reduction of a minor that is not the zero function, so the generic rank is at least as large.
From above: parameters minus the rank of the symmetries, or a closed form. Where the two meet
the dimension is proved. Where they do not, the rank at independent random points may settle it,
with an error that is bounded but not zero (geometry/random_rank.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from segre.architectures import Architecture
from segre.errors import SegreError, UnluckyError, UnsupportedError
from segre.fields.threads import threads_for
from segre.finding import Bound, Evidence, Finding, Sample, Symmetry
from segre.geometry.at_any_size import (
    asked_for,
    at_any_size,
    by_theorem,
    counted,
    proved_by_theorem,
)
from segre.geometry.balls import BallMinor, ball_minor
from segre.geometry.closed_form import ambient, closed_form
from segre.geometry.estimate import estimate
from segre.geometry.gap import suspects, with_defect
from segre.geometry.independence import Independence, only_in_balls, witness
from segre.geometry.memory import (
    DEFAULT_LIMIT,
    bytes_for_rank,
    bytes_for_symmetries,
    require_memory,
)
from segre.geometry.point import POINTS, Point, undefined_stage
from segre.geometry.progress import Progress, quiet
from segre.geometry.random_rank import sampled
from segre.geometry.rank import JacobianRank, SymmetryRank, jacobian_rank, symmetry_rank
from segre.geometry.real_point import piecewise
from segre.geometry.wider import Wider, wider_bound
from segre.models import Source, architecture
from segre.theorems import apply
from segre.transformer.choices import Output
from segre.values import quote

Method = Literal["auto", "theorem", "exact", "random", "balls", "closed-form", "count", "estimate"]

_SHORTFALLS = 2
_MOST_ROOT_INPUTS = 1 << 10
_LARGEST_AUTO = 6_000
_LONGEST_AUTO = 16
_LARGEST_SAMPLED = 2_000  # parameters: random points take a few times as long as the bounds


@dataclass(frozen=True)
class Proof:
    """Bounds on a dimension with everything needed to check them again."""

    spec: Architecture
    point: Point
    minor: JacobianRank | BallMinor
    independence: Independence | None
    symmetry: SymmetryRank | None
    lower: Bound
    upper: Bound
    wider: Wider | None = None  # where the upper bound is that of another architecture

    @property
    def met(self) -> bool:
        """Whether the bounds meet."""
        return self.lower.value == self.upper.value

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """The symmetries in words, if they were counted."""
        return () if self.symmetry is None else self.symmetry.symmetries


def dimension(
    spec: Source,
    method: Method = "auto",
    seed: int = 0,
    *,
    output: Output | None = None,
    symmetries: bool = False,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> Finding:
    """The dimension of the space of functions of an architecture, and how it is known.

    The `method` says how: `auto` and `exact` give proved bounds. `exact` computes both, without
    formulas or theorems. `auto` uses the closed form if there is one, and then counts the
    symmetries only if they are to be listed. If the network is too large to compute, `auto` uses a
    theorem; for transformers that no theorem covers, it counts the symmetries by formulas, as
    `count` does. Where the bounds of a small network do not meet, `auto` also computes the rank at
    independent random points: then the dimension is `certain` or `likely`, not proved. `random`
    does what `exact` does, and then this, at any size. `theorem` uses only a theorem. `balls` takes
    the lower bound at a real point, in certified real arithmetic, instead of mod p. `closed-form`
    is only the formula, an upper bound. `estimate` is a floating-point rank. `output` selects
    another output of a language model: logits or softmax. With `symmetries`, the symmetries are
    listed in any case.

    >>> found = dimension("softmax/d=10,10,10/a=2,2/t=3")
    >>> found.value, found.status, found.parameters
    (172, 'proved', 280)
    >>> found = dimension("llama-3-8b")
    >>> found.value, found.status, found.redundancy["total"]
    (8016918528, 'proved', 13342720)
    >>> found = dimension("lightning/d=2,4/a=2/heads=3/dv=1/t=2")
    >>> found.value, found.number, found.status, found.unexplained
    (None, 21, 'certain', 3)
    """
    net = architecture(spec)
    if method not in get_args(Method):
        raise SegreError(f"unknown method {method!r}; allowed: {', '.join(get_args(Method))}")
    if not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise SegreError(f"seed {seed!r} is not allowed; allowed: whole numbers 0 to 2^63 - 1")
    if output is not None:
        net = asked_for(net, output)
    if method == "estimate":
        return estimate(net, seed=seed, memory=memory)
    if method == "theorem":
        return with_defect(proved_by_theorem(net))
    if method == "count":
        return counted(net)
    if method == "auto" and (known := without_computing(net)) is not None:
        return with_defect(known)
    if method == "closed-form":
        return Finding.from_bounds(net, None, closed_form(net), seed=seed)
    proof = prove(
        net,
        seed,
        formula=method == "auto",
        symmetries=symmetries or method != "auto",
        balls=method == "balls",
        memory=memory,
        progress=progress,
    )
    if method == "auto" and not proof.met and (known := _by_theorem(net)) is not None:
        return replace(known, symmetries=proof.symmetries or known.symmetries, seed=seed)
    if method in ("auto", "random"):
        return settled(proof, seed, progress, always=method == "random")
    return finding_of(proof, seed, balls=method == "balls")


def settled(
    proof: Proof, seed: int = 0, progress: Progress = quiet, *, always: bool = False
) -> Finding:
    """The finding of a proof; if its bounds do not meet, with the rank at random points.

    That of a large network is left out, unless it is asked for `always`.
    """
    sample = None
    if not proof.met and (always or proof.spec.parameters <= _LARGEST_SAMPLED):
        with threads_for(proof.spec.parameters):
            sample = sampled(proof.spec, proof.lower.value, proof.minor.rows, seed, progress)
    return finding_of(proof, seed, sample=sample)


def finding_of(
    proof: Proof, seed: int = 0, *, balls: bool = False, sample: Sample | None = None
) -> Finding:
    """The finding of a proof: its bounds, the symmetries, and the reason if bounds do not meet."""
    notes = []
    if balls and not proof.lower.value and proof.upper.value:
        notes.append("ball arithmetic could not show that the minor is nonzero; try another --seed")
    elif not proof.met and sample is None:
        gap = proof.upper.value - proof.lower.value
        some = "1 dimension" if gap == 1 else f"{gap} dimensions"
        notes.append(
            f"the bounds do not meet: at a random point the kernel has {some} that no symmetry "
            "known to segre explains"
        )
        if features := suspects(proof.spec):
            notes.append(f"gaps are known to occur with: {features}")
    regions = piecewise(proof.spec) if isinstance(proof.minor, BallMinor) else ()
    if regions:
        notes.append(
            f"the function is only piecewise analytic ({' and '.join(regions)}): the dimension is "
            "the largest over its regions; it is reached on an open set of weights, and may be "
            "smaller in other regions (docs/soundness.md)"
        )
    found = Finding.from_bounds(
        proof.spec,
        proof.lower,
        proof.upper,
        symmetries=proof.symmetries,
        notes=tuple(notes),
        regions=regions,
        seed=seed,
    )
    return with_defect(found.with_sample(sample))


def too_large(spec: Architecture) -> bool:
    """Whether `auto` avoids computing its rank if there is another answer."""
    return spec.parameters > _LARGEST_AUTO or spec.t > _LONGEST_AUTO


def without_computing(spec: Architecture) -> Finding | None:
    """The answer of `auto` for an architecture that is too large: a theorem, or a count."""
    if not too_large(spec):
        return None
    return at_any_size(spec, counted) if spec.counted else _by_theorem(spec)


def _by_theorem(spec: Architecture) -> Finding | None:
    applied = apply(spec)
    return by_theorem(applied) if applied is not None and applied.holds else None


def prove(
    spec: Architecture,
    seed: int = 0,
    *,
    formula: bool = True,
    symmetries: bool = True,
    balls: bool = False,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> Proof:
    """The best bounds found at up to two random points.

    Points at which something has no value are skipped. A point whose rank falls short of the
    upper bound is retried once with another prime and seed, since that may be bad luck. Symmetries
    are counted if asked for, and where there is no closed form to do without them.
    """
    formula = formula and spec.has_closed_form
    symmetries = symmetries or not formula
    needed = bytes_for_rank(spec, 0) + symmetries * bytes_for_symmetries(spec)
    require_memory(spec, needed, memory)
    best: Proof | None = None
    shortfalls = 0
    for attempt in range(POINTS):
        try:
            with threads_for(spec.parameters):
                point = Point.draw(spec, seed, attempt)
                found = _prove_at(point, formula, symmetries, balls, memory, progress)
        except UnluckyError:
            if not attempt and (stage := undefined_stage(spec, seed)) is not None:
                raise UnsupportedError(
                    f"spec {quote(str(spec))}: the network is not defined for any weights: its "
                    f"stage {stage!r} divides 0 by 0"
                ) from None
            continue
        if best is None or found.lower.value > best.lower.value:
            best = found
        # in balls several points have been tried already
        shortfalls += _SHORTFALLS if isinstance(found.minor, BallMinor) else 1
        if best.lower.value == best.upper.value or shortfalls >= _SHORTFALLS:
            return best
    if best is None:
        raise UnluckyError(
            f"spec {str(spec)!r}: none of {POINTS} random points is usable; try another --seed"
        )
    return best


def _prove_at(
    point: Point, formula: bool, symmetries: bool, balls: bool, memory: int, progress: Progress
) -> Proof:
    spec = point.spec
    symmetry = symmetry_rank(point, progress) if symmetries else None
    upper = _upper_bound(spec, symmetry, formula)
    wider = wider_bound(spec, point)
    if wider is not None and wider.bound.value < upper.value:
        upper = wider.bound
    require_memory(spec, bytes_for_rank(spec, upper.value), memory)
    sound, minor, independence = only_in_balls(spec) is None, None, None
    if sound and (symmetry is None or symmetry.rooted):
        sound, minor, independence = _modular(point, upper.value, progress)
    else:
        sound = False
    if minor is not None and sound and not balls:
        lower = _lower_bound(point, minor, independence)
        return Proof(spec, point, minor, independence, symmetry, lower, upper, wider)
    certified = ball_minor(spec, upper.value, point.field.seed, progress, minor)
    return Proof(spec, point, certified, None, symmetry, certified.bound, upper, wider)


def _modular(
    point: Point, at_most: int, progress: Progress
) -> tuple[bool, JacobianRank | None, Independence | None]:
    """Whether the rank mod p proves a lower bound; the minor, and why exponentials are free.

    It proves none if square roots do not exist mod p, or if they or the exponentials were not shown
    to be independent.
    """
    spec, sound, independence, minor = point.spec, True, None, None
    try:
        if spec.exponentials:
            independence = witness(spec, point.field)
            sound = independence.established
    except UnluckyError:
        if not spec.salted:
            raise
        sound = False
    try:
        minor = jacobian_rank(point, at_most, progress)
        return sound and _roots_seen(point), minor, independence
    except UnluckyError:
        if not spec.salted:
            raise
        return False, minor, independence


def _roots_seen(point: Point) -> bool:
    """Whether every radicand was seen without a root; a few more inputs are looked at."""
    if not point.spec.salted:
        return True
    seen = 0
    while not point.roots.established and seen < _MOST_ROOT_INPUTS:
        point.find_salts(np.arange(2**20 + seen, 2**20 + seen + 64))
        seen += 64
    return point.roots.established


def _lower_bound(point: Point, minor: JacobianRank, independence: Independence | None) -> Bound:
    statement = (
        f"a {minor.rank} x {minor.rank} minor of the Jacobian is not zero mod {point.field.p} "
        f"(seed {point.field.seed}, {minor.inputs} inputs)"
    )
    if independence is not None:
        statement += f"; the {independence.arguments} exponentials of an input are independent (Ax)"
    if point.roots.sites:
        statement += f", its {len(point.roots.sites)} square roots too"
    return Bound(minor.rank, Evidence("minor-mod-p", statement))


def _upper_bound(spec: Architecture, symmetry: SymmetryRank | None, formula: bool) -> Bound:
    bounds = [
        None if symmetry is None else symmetry.bound(spec.parameters),
        closed_form(spec) if formula else None,
        ambient(spec),
    ]
    return min((one for one in bounds if one is not None), key=lambda bound: bound.value)
