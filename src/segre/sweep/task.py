"""One architecture of a sweep: what it needs before it starts, and what is found.

Tasks and results are plain data, so that they go through pipes and over networks as they are.
The dimension is never taken from the closed form or from a theorem: bounds come from the rank and
the symmetries, and with `random` also from random points: then it is certain or likely, and not
called proved. Of polynomial networks the closed form is itself a proved upper bound, and is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from segre.architectures import Architecture
from segre.errors import SegreError, TooLargeError
from segre.finding import Bound
from segre.models import architecture
from segre.polynomial.spec import Polynomial
from segre.theorems import apply

if TYPE_CHECKING:
    from segre.geometry.dimension import Proof

Task = dict[str, Any]  # digest, document, compute, seed, memory
Result = dict[str, Any]  # digest, and what was found
FOUND = ("lower", "upper", "closed_form", "status", "evidence", "seconds")


def bytes_needed(spec: Architecture, compute: list[str] | tuple[str, ...]) -> int:
    """Memory that a task takes at most, known before it starts."""
    from segre.geometry.memory import bytes_for_rank, bytes_for_symmetries

    if not set(compute) & {"exact", "symmetries"}:
        return 0
    rank = spec.parameters if "exact" in compute else 0
    return bytes_for_rank(spec, rank) + bytes_for_symmetries(spec)


def task_of(spec: Architecture, compute: Iterable[str], seed: int, memory: int) -> Task:
    """What a worker needs to know."""
    asked = {"compute": list(compute), "seed": seed, "memory": memory}
    return {"digest": spec.digest, "document": {**spec.document()}, **asked}


def solve(task: Task) -> Result:
    """What is found; what goes wrong is found too."""
    began = perf_counter()
    spec = architecture(task["document"])
    try:
        found = _compute(spec, task)
    except (SegreError, AssertionError, MemoryError) as error:
        found = failed(f"{type(error).__name__}: {error}")
    return {"digest": task["digest"], **found, "seconds": round(perf_counter() - began, 6)}


def failed(reason: str, status: str = "failed") -> Result:
    """The result of a task that found no bounds, and why."""
    nothing = dict.fromkeys(("lower", "upper", "closed_form"))
    return {**nothing, "status": status, "evidence": {"problem": reason[:1000]}, "seconds": 0.0}


def timed_out(limit: float) -> Result:
    """The result of a task with a time limit."""
    found = failed(f"no result within {limit:g} s", "timed-out")
    return {**found, "evidence": {**found["evidence"], "limit": limit}, "seconds": limit}


def _compute(spec: Architecture, task: Task) -> Result:
    from segre.geometry.closed_form import predicted
    from segre.geometry.dimension import prove, settled

    compute, seed = task["compute"], task["seed"]
    bounds: dict[str, Bound | None] = {}
    evidence: dict[str, dict[str, Any]] = {}
    sample = None
    if "exact" in compute:
        proof = prove(spec, seed, formula=isinstance(spec, Polynomial), memory=task["memory"])
        bounds = {"lower": proof.lower, "upper": proof.upper}
        if "random" in compute:
            sample = settled(proof, seed, always=True).sample
        if "certificate" in compute:
            evidence["certificate"] = _certified(proof)
    elif "symmetries" in compute:
        bounds = {"upper": _symmetry_bound(spec, seed)}
    if "theorem" in compute and (applied := apply(spec)) is not None:
        evidence["theorem"] = {
            "name": applied.theorem.name,
            "holds": applied.holds,
            "count": spec.parameters - applied.redundant,
        }
    values: dict[str, int | None] = dict.fromkeys(("lower", "upper"))
    for name, bound in bounds.items():
        if bound is not None:
            values[name] = bound.value
            evidence[name] = {"kind": bound.evidence.kind, "statement": bound.evidence.statement}
    known = [f"{name}-bound" for name, value in values.items() if value is not None]
    status = (
        "proved" if len(known) == 2 and len({*values.values()}) == 1 else [*known, "formula"][0]
    )
    if sample is not None:
        status, evidence["random"] = sample.status, sample.document()
    formula = predicted(spec) if "closed-form" in compute else None
    return {**values, "closed_form": formula, "status": status, "evidence": evidence}


def _certified(proof: Proof) -> dict[str, Any]:
    """Whether the kernel accepts a certificate of the bounds, and what that claims."""
    from segre.certificate import certificate_of
    from segre.kernel import verify

    try:
        verdict = verify(certificate_of(proof))
    except TooLargeError as error:
        return {"problem": str(error)}
    return {"problem": None if verdict.valid else verdict.reason, **verdict.claim}


def _symmetry_bound(spec: Architecture, seed: int) -> Bound:
    """The upper bound that symmetries alone give."""
    from segre.fields.threads import threads_for
    from segre.geometry.point import Point
    from segre.geometry.rank import symmetry_rank

    with threads_for(spec.parameters):
        return symmetry_rank(Point.draw(spec, seed, 0)).bound(spec.parameters)
