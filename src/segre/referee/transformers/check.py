"""Does a certificate of a transformer prove what it claims? Everything is recomputed here."""

from __future__ import annotations

from segre.referee.claims import well_formed
from segre.referee.network import Progress
from segre.referee.rejection import RejectionError
from segre.referee.transformers.content import (
    BallMinor,
    Certificate,
    Contexts,
    outputs,
)
from segre.referee.transformers.contexts import few_contexts
from segre.referee.transformers.limits import check_size
from segre.referee.transformers.lower import check_modular, in_balls
from segre.referee.transformers.modular import FreeRoots, Modular
from segre.referee.transformers.regular import check_ball_minor
from segre.referee.transformers.symmetries import symmetry_rank
from segre.referee.transformers.tangents import Point
from segre.referee.transformers.witness import (
    jacobian_mod_p,
)


def check(certificate: Certificate, checks: list[str], progress: Progress) -> None:
    """Check all parts; what holds is added to `checks`, what does not is raised."""
    spec, claim, lower = certificate.spec, certificate.claim, certificate.lower
    checks.append(well_formed(spec, claim.parameters))
    checks.append(f"{certificate.prime} is prime, and 3 mod 4.")
    check_size(certificate)
    point = Point(certificate.layout, Modular(certificate.prime, certificate.seed))
    # Cheap checks come first, so that most faults are found at once.
    _check_upper(certificate, point, checks, progress)
    if isinstance(lower, BallMinor):
        bits = check_ball_minor(certificate.layout, lower, progress)
        checks.append(in_balls(claim, lower, bits))
        return
    checks += check_modular(certificate, lower, point, progress)


def _check_upper(
    certificate: Certificate, point: Point, checks: list[str], progress: Progress
) -> None:
    upper = certificate.upper
    if isinstance(upper, Contexts):
        bound = few_contexts(certificate.spec, upper.count)
        if certificate.claim.upper != bound:
            raise RejectionError(
                f"claim.upper: {certificate.claim.upper}, but the contexts bound is {bound}"
            )
        checks.append(
            f"Every output is one of {upper.count} columns, by the tokens that it sees: the "
            f"dimension is at most {bound}."
        )
        return
    if upper.layout is not certificate.layout:
        point = Point(upper.layout, point.field)
        checks.append(f"Every function is one of {upper.layout.spec} as well.")
    rows, columns = outputs(certificate.spec)
    found = upper.symmetries
    watched = [(n, o) for n in found.salts for o in range(rows * columns)]
    if found.free_roots:
        point = Point(upper.layout, FreeRoots(certificate.prime, certificate.seed))
    jacobian = jacobian_mod_p(point, watched, found.salts, progress)
    ranks = symmetry_rank(point, jacobian, progress)
    if found.rank not in ranks:
        raise RejectionError(f"upper.rank: {found.rank}, but the symmetries have rank {ranks[-1]}")
    checks.append(
        f"Symmetries have rank {found.rank} and change none of the outputs of two inputs: "
        f"the dimension is at most {certificate.claim.upper}."
    )
