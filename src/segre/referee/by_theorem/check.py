"""Does a theorem prove what a certificate claims? Every number is recomputed from the spec."""

from __future__ import annotations

from collections.abc import Sequence

from segre.referee.by_theorem.designs import Spec, uncovered
from segre.referee.by_theorem.document import Certificate
from segre.referee.by_theorem.hypotheses import Hypothesis, hypotheses
from segre.referee.by_theorem.parameters import parameters
from segre.referee.by_theorem.symmetries import Counted, symmetries
from segre.referee.claims import Claim, well_formed
from segre.referee.rejection import RejectionError
from segre.referee.shapes import quote
from segre.transformer.spec import Transformer


def check(certificate: Certificate, checks: list[str]) -> None:
    """Check all parts; what holds is added to `checks`, what does not is raised."""
    spec, claim, theorem = certificate.spec, certificate.claim, certificate.theorem
    if found := uncovered(spec, theorem):
        raise RejectionError(f"theorem.name: theorem {theorem} does not cover {found}")
    P = parameters(spec)
    _compare("claim.parameters", claim.parameters, P)
    checks.append(well_formed(spec, P))
    checks.append(f"It is a certificate by theorem: theorem {theorem} covers this design.")
    asked = hypotheses(spec, theorem)
    _check_hypotheses(certificate.hypotheses, asked)
    every = f"All {len(asked)} hypotheses hold" if len(asked) > 1 else "Its one hypothesis holds"
    checks.append(f"{every}: {', '.join(map(str, asked))}.")
    counted = symmetries(spec, theorem)
    _check_symmetries(certificate.symmetries, counted)
    total = sum(dimension for _, dimension in counted)
    _check_claim(claim, P - total)
    checks.append(
        f"The symmetries have dimension {total}: of {P} parameters the theorem leaves "
        f"{P - total}, the dimension."
    )
    checks.append(f"Trusted, and not checked: {trusted(theorem, spec)}.")


def trusted(theorem: str, spec: Spec) -> str:
    """What a certificate rests on that is not checked. Section 6."""
    published = []
    if theorem not in ("L1", "L", "V", "M", "K"):
        published.append("Ax")
    if theorem == "V":
        published.append("Alexander and Hirschowitz")
    if theorem in ("C", "D1", "E"):
        published.append("Lindemann")
    proof = f"the proof of theorem {theorem} in docs/theorems.md, which is not formalised"
    if isinstance(spec, Transformer) and spec.mlp in ("gelu", "geglu"):
        proof += ", that of statement (T) of docs/soundness.md, which is not formalised either"
    if not published:
        return proof
    *others, last = (f"of {author}" for author in published)
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"{proof}, and the published theorem{'s' * (len(published) > 1)} {listed}"


def _compare(where: str, given: int | str, found: int | str) -> None:
    if given != found:
        told = quote(given) if isinstance(given, str) else given
        raise RejectionError(f"{where}: {told}, but it is {quote(found)}")


def _check_hypotheses(given: Sequence[Hypothesis], asked: Sequence[Hypothesis]) -> None:
    where = "theorem.hypotheses"
    for i, (one, other) in enumerate(zip(given, asked, strict=False)):
        for field in Hypothesis._fields:
            _compare(f"{where}[{i}].{field}", getattr(one, field), getattr(other, field))
        if not other.holds:
            raise RejectionError(f"{where}[{i}]: {other} does not hold")
    if len(given) != len(asked):
        raise RejectionError(f"{where}: {len(given)} entries, but the theorem has {len(asked)}")


def _check_symmetries(given: Sequence[Counted], counted: Sequence[Counted]) -> None:
    where = "theorem.symmetries"
    for i, (one, other) in enumerate(zip(given, counted, strict=False)):
        _compare(f"{where}[{i}].name", one[0], other[0])
        _compare(f"{where}[{i}].dimension", one[1], other[1])
    if len(given) != len(counted):
        raise RejectionError(f"{where}: {len(given)} entries, but there are {len(counted)}")


def _check_claim(claim: Claim, dimension: int) -> None:
    _compare("claim.lower", claim.lower, dimension)
    _compare("claim.upper", claim.upper, dimension)
