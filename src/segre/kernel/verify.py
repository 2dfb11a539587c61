"""Does a certificate prove what it claims? `verify` recomputes everything and says so.

The kernel is written from docs/certificate.md alone and shares no arithmetic with the prover: it
has its own graph of each kind of network, derivatives, linear algebra and lemmas. Of segre it
imports only errors, the reading of files and specs, and how answers are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from segre.kernel.document import COUNTED, Certificate, RejectionError, examine, read
from segre.kernel.meter import MOST_SECONDS, Meter, Progress, metered, silently
from segre.shown import Shown

Kind = Literal["computation", "theorem"]


@dataclass(frozen=True)
class Verdict(Shown):
    """Whether a certificate is valid; if not, the first reason why.

    `checks` lists the successful checks, one sentence each. `claim` is what the certificate claims
    (to be trusted only if `valid`); it is empty if the certificate is malformed. `kind` says what
    it holds: a computation, which was repeated, or the application of a `theorem`, whose proof has
    to be trusted.

    >>> verdict = Verdict(False, "claim.upper: 5, but the closed-form bound is 6")
    >>> verdict.value, verdict.upper, verdict.how
    (False, None, 'claim.upper: 5, but the closed-form bound is 6')
    """

    valid: bool
    reason: str
    checks: tuple[str, ...] = ()
    claim: dict[str, Any] = field(default_factory=dict)
    kind: Kind = "computation"
    theorem: str | None = None

    @property
    def value(self) -> bool:
        """The answer: whether it is valid."""
        return self.valid

    @property
    def lower(self) -> int | None:
        """The lower bound of the dimension, if it is proved."""
        return self.claim["lower"] if self.valid else None

    @property
    def upper(self) -> int | None:
        """The upper bound of the dimension, if it is proved, or certain."""
        return self.claim["upper"] if self.valid else None

    @property
    def status(self) -> Literal["exact", "certain"]:
        """All is checked in integers and balls; an upper bound by random points is certain."""
        return "certain" if self.valid and self.claim["status"] == "certain" else "exact"

    @property
    def how(self) -> str:
        """Why it is valid or not."""
        return self.reason

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {**vars(self), "checks": list(self.checks)}


def verify(
    source: str | Path | Mapping[str, Any],
    *,
    progress: Progress | None = None,
    seconds: float = MOST_SECONDS,
    meter: Meter | None = None,
) -> Verdict:
    """Check a certificate: `source` is a file (`-` is standard input), or a mapping.

    Raises `CertificateError` if it is not a certificate, `TooLargeError` if the check needs too
    much memory, and `OutOfTimeError` if it needs more than `seconds`; in these cases nothing is
    known. `progress` is called with the current stage, the work done and the total. A `meter`
    passed in records the amount of work.

    >>> import segre
    >>> document = segre.certify("lightning/d=2,2/a=1/t=2")
    >>> found = verify(document)
    >>> found.lower, found.upper, verify({**document, "roots": 1}).valid
    (6, 6, False)
    """
    document, fault = read(source)
    with metered(meter or Meter(seconds)):
        return _verdict(document, fault, progress or silently)


def _verdict(document: dict[str, Any], fault: RejectionError | None, progress: Progress) -> Verdict:
    """Check the form, then what is computed; the first fault ends it."""
    checks: list[str] = []
    claim: dict[str, Any] = {}
    kind: Kind = "computation"
    try:
        if fault is not None:
            raise fault
        certificate = examine(document)
        claim = asdict(certificate.claim)
        kind = "theorem" if certificate.claim.lower_by == "theorem" else "computation"
        checks.append(_well_formed(certificate))
        (_by_theorem if kind == "theorem" else _by_computation)(certificate, checks, progress)
    except RejectionError as reason:
        return Verdict(False, str(reason), tuple(checks), claim, kind)
    theorem = document["lower"]["name"] if kind == "theorem" else None
    return Verdict(True, "every check holds", tuple(checks), claim, kind, theorem)


def _well_formed(certificate: Certificate) -> str:
    """The first sentence: the form is right, and what it is about."""
    name = str(certificate.spec)
    name = name if len(name) <= 120 else name[:117] + "..."
    return (
        f"The file is complete and well formed, and describes {name} with "
        f"{certificate.claim.parameters} parameters."
    )


# What computes is imported when it is needed: a certificate by theorem takes less time than
# importing the arithmetic of the others.


def _by_theorem(certificate: Certificate, checks: list[str], _progress: Progress) -> None:
    """Both bounds, by a theorem about all sizes (section 9)."""
    from segre.kernel.theorem import check

    sections = certificate.sections
    checks += check(certificate.spec, certificate.claim, sections["lower"], sections["upper"])


def _by_computation(certificate: Certificate, checks: list[str], progress: Progress) -> None:
    """The lower bound (section 5), and the upper bound (sections 6 to 8)."""
    from segre.kernel import lower, random, spaces
    from segre.kernel.network import graph_of

    claim, graph = certificate.claim, graph_of(certificate.spec)
    if claim.parameters != graph.parameters:
        raise RejectionError(
            f"claim.parameters: {claim.parameters}, but the spec has {graph.parameters}"
        )
    checks.append(f"{certificate.prime} is prime.")
    if claim.upper_by in COUNTED:  # by formulas, before anything takes long
        from segre.kernel import counting

        bound, sentence = counting.check(certificate, graph)
        _require(claim.upper, bound, claim.upper_by)
        checks.append(sentence)
    lower.check(certificate, graph, checks, progress)
    if claim.upper_by not in COUNTED:
        bound_by = random.check if claim.upper_by == "random" else spaces.check
        bound, sentence = bound_by(certificate, graph, progress)
        _require(claim.upper, bound, claim.upper_by)
        checks.append(sentence)


def _require(claimed: int, bound: int, kind: str) -> None:
    if claimed != bound:
        raise RejectionError(f"claim.upper: {claimed}, but the bound by {kind} is {bound}")
