"""Does a certificate prove what it claims? `verify` recomputes everything and says so.

The referee is written from docs/certificate.md and docs/certificate-transformers.md alone and
shares no arithmetic with the prover: other random generator code, other derivatives (reverse
mode), other linear algebra.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from flint import nmod_mat

from segre.referee.document import Certificate, Independence, examine
from segre.referee.formulas import ambient, closed_form
from segre.referee.limits import check_size
from segre.referee.linear import determinant, select
from segre.referee.meter import MOST_SECONDS, Meter, metered
from segre.referee.network import Point, Progress, jacobian, score_differences
from segre.referee.reading import read
from segre.referee.rejection import RejectionError
from segre.referee.residues import Draw
from segre.referee.symmetries import check_symmetries
from segre.referee.transformers.check import check as check_transformer
from segre.referee.transformers.document import examine as examine_transformer
from segre.shown import Shown


@dataclass(frozen=True)
class Verdict(Shown):
    """Whether a certificate holds; if not, the first reason why.

    `checks` are the things that were checked and hold, in sentences; `claim` is what the
    certificate claims (to be trusted only if `valid`), empty if it is malformed.

    >>> verdict = Verdict(False, "claim.upper: 5, but the closed-form bound is 6")
    >>> verdict.value, verdict.upper, verdict.how
    (False, None, 'claim.upper: 5, but the closed-form bound is 6')
    """

    valid: bool
    reason: str
    checks: tuple[str, ...] = ()
    claim: dict[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> bool:
        """The answer: whether it holds."""
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
        """Everything is checked in integers, and in balls where there are roots."""
        return "exact"

    @property
    def how(self) -> str:
        """Why it holds, or does not."""
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
    """Check a certificate: a file (`-` is standard input), or the mapping that is in it.

    Raises `CertificateError` if it is no certificate at all, `TooLargeError` if it takes too much
    memory, and `OutOfTimeError` if there are not enough `seconds`: then nothing is known.
    `progress` is called with what is being done, and how much of how much is done. A `meter` of
    one's own says afterwards how much work it was.

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
    try:
        if fault is not None:
            raise fault
        if document["version"] == 1:
            certificate = examine(document)
            claim = asdict(certificate.claim)
            _check(certificate, checks, progress)
        else:
            transformer = examine_transformer(document)
            claim = asdict(transformer.claim)
            check_transformer(transformer, checks, progress)
    except RejectionError as reason:
        return Verdict(False, str(reason), tuple(checks), claim)
    return Verdict(True, "every check holds", tuple(checks), claim)


def _silently(_what: str, _done: int, _total: int) -> None:
    """Report no progress."""


def _check(certificate: Certificate, checks: list[str], progress: Progress) -> None:
    net, claim = certificate.net, certificate.claim
    name = str(net) if len(str(net)) <= 120 else str(net)[:117] + "..."
    checks.append(
        f"The file is whole and well formed, and describes {name} with {claim.parameters} "
        "parameters."
    )
    checks.append(f"{certificate.prime} is prime.")
    kind = certificate.upper.kind
    if kind != "symmetries":
        bound = closed_form(net) if kind == "closed-form" else ambient(net)
        if claim.upper != bound:
            raise RejectionError(f"claim.upper: {claim.upper}, but the {kind} bound is {bound}")
        checks.append(f"The {kind} bound of this architecture is {bound}.")
    check_size(certificate)
    draw = Draw(certificate.prime, certificate.seed)
    point = Point.drawn(net, draw)
    rows = _check_minor(certificate, point, draw, progress)
    checks.append(
        f"The Jacobian at the point of seed {certificate.seed} has a minor of size "
        f"{claim.lower} that is not zero mod p: the dimension is at least {claim.lower}."
    )
    if (independence := certificate.independence) is not None:
        size = _check_independence(certificate, independence, draw, progress)
        checks.append(
            f"The scores are independent: a determinant of size {size} of their differences "
            "is not zero mod p."
        )
    if kind == "symmetries":
        pieces = certificate.upper.pieces
        rank = check_symmetries(point, certificate.dimensions, rows, pieces, progress)
        checks.append(
            f"Symmetries have rank {rank} and change none of these outputs: the dimension is at "
            f"most {claim.upper}."
        )


def _check_minor(
    certificate: Certificate, point: Point, draw: Draw, progress: Progress
) -> nmod_mat:
    minor = certificate.minor
    rows = jacobian(point, draw, minor.rows, progress)
    found = determinant(select(rows, range(len(minor.rows)), minor.columns))
    if found != minor.determinant:
        raise RejectionError(
            f"lower.determinant: {minor.determinant}, but the minor is {found} mod p"
        )
    return rows


def _check_independence(
    certificate: Certificate, independence: Independence, draw: Draw, progress: Progress
) -> int:
    points = independence.points
    table = nmod_mat(len(points), len(points), certificate.prime)
    for i, number in enumerate(points):
        row = score_differences(certificate.net, draw, number, certificate.dimensions.reached)
        for j, entry in enumerate(row):
            table[i, j] = entry
        progress("witness points", i + 1, len(points))
    found = determinant(table)
    if found != independence.determinant:
        raise RejectionError(
            f"independence.determinant: {independence.determinant}, but it is {found} mod p"
        )
    return len(points)
