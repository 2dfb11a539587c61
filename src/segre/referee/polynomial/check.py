"""Does a certificate of a polynomial network prove what it claims? All of it is recomputed."""

from __future__ import annotations

from flint import nmod_mat

from segre.referee.claims import well_formed
from segre.referee.linear import determinant, select
from segre.referee.network import Progress
from segre.referee.polynomial.document import Certificate
from segre.referee.polynomial.inequalities import check_steps
from segre.referee.polynomial.limits import check_size
from segre.referee.polynomial.network import Point
from segre.referee.polynomial.symmetries import check_symmetries
from segre.referee.rejection import RejectionError
from segre.referee.residues import Draw


def check(certificate: Certificate, checks: list[str], progress: Progress) -> None:
    """Check all parts; what holds is added to `checks`, what does not is raised."""
    spec, claim, upper = certificate.spec, certificate.claim, certificate.upper
    checks.append(well_formed(spec, claim.parameters))
    checks.append(f"{certificate.prime} is prime.")
    check_size(certificate)
    if upper.kind == "inequalities":
        bound = check_steps(spec, upper.steps)
        if claim.upper != bound:
            raise RejectionError(f"claim.upper: {claim.upper}, but the steps prove {bound}")
        rules = list(dict.fromkeys(step.rule for step in upper.steps))
        checks.append(
            f"By the inequalities of docs/polynomial.md ({', '.join(rules)}) the dimension is at "
            f"most {bound}."
        )
        if "veronese" in rules and spec.degree > 2:
            checks.append("Trusted, and not checked: the theorem of Alexander and Hirschowitz.")
    point = Point(spec, Draw(certificate.prime, certificate.seed))
    rows = _check_minor(certificate, point, progress)
    checks.append(
        f"The Jacobian at the point of seed {certificate.seed} has a minor of size "
        f"{claim.lower} that is not zero mod p: the dimension is at least {claim.lower}."
    )
    if upper.kind == "symmetries":
        rank = check_symmetries(point, rows, upper.pieces, progress)
        checks.append(
            f"Symmetries have rank {rank} and change none of these outputs: the dimension is at "
            f"most {claim.upper}."
        )


def _check_minor(certificate: Certificate, point: Point, progress: Progress) -> nmod_mat:
    minor = certificate.minor
    rows = point.jacobian(minor.rows, progress)
    found = determinant(select(rows, range(len(minor.rows)), minor.columns))
    if found != minor.determinant:
        raise RejectionError(
            f"lower.determinant: {minor.determinant}, but the minor is {found} mod p"
        )
    return rows
