"""Does the lower bound of a certificate hold? The checks, and what they show in words."""

from __future__ import annotations

from collections.abc import Iterator

from segre.referee.claims import Claim
from segre.referee.network import Progress
from segre.referee.transformers.content import BallMinor, Evidence, ModularMinor
from segre.referee.transformers.point import Anywhere
from segre.referee.transformers.witness import check_independence, check_minor, check_roots


def check_modular(
    certificate: Evidence, minor: ModularMinor, point: Anywhere, progress: Progress
) -> Iterator[str]:
    """Check roots, minor and independence mod p; yield what holds, raise what does not."""
    claim, roots = certificate.claim, certificate.roots
    check_roots(point, roots, progress)
    if roots:
        yield f"Each of {len(roots)} radicands is no square at some point."
    check_minor(point, minor, progress)
    yield (
        f"The Jacobian at the point of seed {certificate.seed} has a minor of size "
        f"{claim.lower} that is not zero mod p: the dimension is at least {claim.lower}."
    )
    if (independence := certificate.independence) is not None:
        check_independence(point, independence, progress)
        yield (
            f"The arguments are independent: a determinant of size {len(independence.points)} "
            "of their differences is not zero mod p."
        )


def in_balls(claim: Claim, minor: BallMinor, bits: int) -> str:
    """What a minor shows that is regular in balls of so many bits."""
    return (
        f"The Jacobian at the real point of seed {minor.seed} has a minor of size "
        f"{claim.lower} that is regular, in balls of {bits} bits: the dimension is at least "
        f"{claim.lower}."
    )
