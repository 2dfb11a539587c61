"""Does a certificate of a mixed stack prove what it claims? Everything is recomputed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from segre.referee.claims import well_formed
from segre.referee.mixed.document import Certificate
from segre.referee.mixed.forward import record
from segre.referee.mixed.limits import check_bits, check_size
from segre.referee.mixed.point import Point
from segre.referee.mixed.symmetries import symmetry_rank
from segre.referee.network import Progress
from segre.referee.rejection import RejectionError
from segre.referee.transformers.balls import real_matrix
from segre.referee.transformers.content import BallMinor
from segre.referee.transformers.lower import check_modular, in_balls
from segre.referee.transformers.modular import FreeRoots, Modular
from segre.referee.transformers.numbers import Matrix, Numbers
from segre.referee.transformers.recording import Recording
from segre.referee.transformers.regular import prove_minor
from segre.referee.transformers.tensors import Key
from segre.referee.transformers.witness import (
    jacobian_mod_p,
)


def check(certificate: Certificate, checks: list[str], progress: Progress) -> None:
    """Check all parts; what holds is added to `checks`, what does not is raised."""
    spec, claim, lower = certificate.spec, certificate.claim, certificate.lower
    checks.append(well_formed(spec, claim.parameters))
    checks.append(f"{certificate.prime} is prime, and 3 mod 4.")
    check_size(certificate)
    _check_upper(certificate, checks, progress)
    if isinstance(lower, BallMinor):
        bits = _prove(certificate, lower, progress)
        checks.append(in_balls(claim, lower, bits))
        return
    point = Point(certificate.layout, Modular(certificate.prime, certificate.seed))
    checks += check_modular(certificate, lower, point, progress)


def _check_upper(certificate: Certificate, checks: list[str], progress: Progress) -> None:
    upper, spec = certificate.upper, certificate.spec
    field = (FreeRoots if upper.free_roots else Modular)(certificate.prime, certificate.seed)
    point = Point(certificate.layout, field)
    outputs = spec.layers[-1].width_out * spec.t
    watched = [(n, o) for n in upper.salts for o in range(outputs)]
    jacobian = jacobian_mod_p(point, watched, upper.salts, progress)
    rank = symmetry_rank(point, jacobian, progress)
    if upper.rank != rank:
        raise RejectionError(f"upper.rank: {upper.rank}, but the symmetries have rank {rank}")
    checks.append(
        f"Symmetries have rank {rank} and change none of the outputs of two inputs: "
        f"the dimension is at most {certificate.claim.upper}."
    )


def _prove(certificate: Certificate, minor: BallMinor, progress: Progress) -> int:
    """Prove a minor regular in balls and return the bits that it took."""
    layout, spec = certificate.layout, certificate.spec
    rows, t = spec.layers[0].width_in, spec.t
    no_salts = [(0,) * t] * (len(spec.layers) + 1)

    def recorder(numbers: Numbers, weights: Mapping[Key, Matrix]) -> Callable[[int], Recording]:
        return lambda n: record(
            layout, numbers, weights, real_matrix(minor.seed, n, rows, t), no_salts
        )

    def afford(bits: int) -> None:
        check_bits(certificate, minor, bits)

    return prove_minor(layout, minor, recorder, afford, progress)
