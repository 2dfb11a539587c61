"""Does a certificate of a stack prove what it claims? Everything is recomputed here."""

from __future__ import annotations

from flint import nmod_mat

from segre.referee.claims import well_formed
from segre.referee.document import Certificate, Independence
from segre.referee.formulas import ambient, closed_form
from segre.referee.limits import check_size
from segre.referee.linear import determinant, select
from segre.referee.network import Point, Progress, jacobian, score_differences
from segre.referee.rejection import RejectionError
from segre.referee.residues import Draw
from segre.referee.symmetries import check_symmetries


def check(certificate: Certificate, checks: list[str], progress: Progress) -> None:
    """Check all parts; what holds is added to `checks`, what does not is raised."""
    net, claim = certificate.net, certificate.claim
    checks.append(well_formed(net, claim.parameters))
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
