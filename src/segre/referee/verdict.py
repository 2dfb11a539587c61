"""Does a certificate prove what it claims? `verify` recomputes everything and says so.

The referee is written from docs/certificate.md, docs/certificate-transformers.md,
docs/certificate-mixed.md, docs/certificate-polynomial.md and docs/certificate-theorems.md alone
and shares no arithmetic with the prover: other random generator code, other derivatives (reverse
mode), other linear algebra, other formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from segre.referee.meter import MOST_SECONDS, Meter, metered
from segre.referee.reading import read
from segre.referee.rejection import RejectionError
from segre.shown import Shown

if TYPE_CHECKING:
    from segre.referee.network import Progress

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
        """The upper bound of the dimension, if it is proved."""
        return self.claim["upper"] if self.valid else None

    @property
    def status(self) -> Literal["exact"]:
        """Everything is checked in integers, and in ball arithmetic where there are roots."""
        return "exact"

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
    >>> verify(document).claim, verify({**document, "seed": 1}).valid
    ({'parameters': 8, 'lower': 6, 'upper': 6, 'status': 'proved'}, False)
    """
    document, fault = read(source)
    with metered(meter or Meter(seconds)):
        return _verdict(document, fault, progress or _silently)


def _verdict(document: dict[str, Any], fault: RejectionError | None, progress: Progress) -> Verdict:
    checks: list[str] = []
    claim: dict[str, Any] = {}
    kind: Kind = "theorem" if document["version"] == 3 else "computation"
    try:
        if fault is not None:
            raise fault
        _CHECKS[document["version"]](document, claim, checks, progress)
    except RejectionError as reason:
        return Verdict(False, str(reason), tuple(checks), claim, kind)
    theorem = document["theorem"]["name"] if kind == "theorem" else None
    return Verdict(True, "every check holds", tuple(checks), claim, kind, theorem)


def _silently(_what: str, _done: int, _total: int) -> None:
    """Report no progress."""


# Each is imported when it is needed: a certificate by theorem takes less time than importing the
# arithmetic of the others.


def _check_stack(
    document: dict[str, Any], claim: dict[str, Any], checks: list[str], progress: Progress
) -> None:
    from segre.referee.check import check
    from segre.referee.document import examine

    certificate = examine(document)
    claim.update(asdict(certificate.claim))
    check(certificate, checks, progress)


def _check_transformer(
    document: dict[str, Any], claim: dict[str, Any], checks: list[str], progress: Progress
) -> None:
    from segre.referee.transformers.check import check
    from segre.referee.transformers.document import examine

    certificate = examine(document)
    claim.update(asdict(certificate.claim))
    check(certificate, checks, progress)


def _check_theorem(
    document: dict[str, Any], claim: dict[str, Any], checks: list[str], _progress: Progress
) -> None:
    from segre.referee.by_theorem.check import check
    from segre.referee.by_theorem.document import examine

    certificate = examine(document)
    claim.update(asdict(certificate.claim))
    check(certificate, checks)


def _check_mixed(
    document: dict[str, Any], claim: dict[str, Any], checks: list[str], progress: Progress
) -> None:
    from segre.referee.mixed.check import check
    from segre.referee.mixed.document import examine

    certificate = examine(document)
    claim.update(asdict(certificate.claim))
    check(certificate, checks, progress)


def _check_polynomial(
    document: dict[str, Any], claim: dict[str, Any], checks: list[str], progress: Progress
) -> None:
    from segre.referee.polynomial.check import check
    from segre.referee.polynomial.document import examine

    certificate = examine(document)
    claim.update(asdict(certificate.claim))
    check(certificate, checks, progress)


_CHECKS = {
    1: _check_stack,
    2: _check_transformer,
    3: _check_theorem,
    4: _check_mixed,
    5: _check_polynomial,
}
