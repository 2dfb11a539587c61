"""The same lower bound without mod p and without Ax: a minor at a real point, in balls.

At weights and inputs that are small dyadic numbers the true Jacobian of the true network, with
real exponentials, is enclosed in balls. If the determinant of a minor excludes zero, the
Jacobian has at least that rank at that point, hence generically.
"""

from __future__ import annotations

import numpy as np

from segre.errors import UnluckyError
from segre.fields.ball import Ball
from segre.finding import Bound, Evidence
from segre.geometry.rank import JacobianRank
from segre.network import jacobian
from segre.spec import Network

_BITS = (128, 256, 512, 1024)
_GRID = 1 << 20


def ball_minor(spec: Network, minor: JacobianRank, seed: int = 0) -> Bound | None:
    """The rank of `minor`, certified at a real point; None if no precision separates it from 0.

    >>> from segre.geometry.dimension import prove
    >>> proof = prove(Network.parse("softmax/d=2,2/a=1/t=2"))
    >>> ball_minor(proof.spec, proof.minor).value
    7
    """
    rng = np.random.default_rng(seed)
    weights = rng.integers(-_GRID, _GRID + 1, spec.parameters) / _GRID
    inputs = sorted({n for n, _ in minor.rows})
    X = rng.integers(-_GRID, _GRID + 1, (len(inputs), spec.widths[0], spec.t)) / _GRID
    place = {n: i for i, n in enumerate(inputs)}
    chosen = ([place[n] for n, _ in minor.rows], [o for _, o in minor.rows])
    for bits in _BITS:
        field = Ball(bits)
        with field.precision():
            try:
                J = jacobian(field, spec, field.constant(weights), field.constant(X))
            except UnluckyError:
                continue
            if field.regular(J[chosen][:, minor.columns]):
                statement = (
                    f"a {minor.rank} x {minor.rank} minor of the real Jacobian is not zero at a "
                    f"dyadic point (seed {seed}), by ball arithmetic at {bits} bits"
                )
                return Bound(minor.rank, Evidence("ball-minor", statement))
    return None
