"""How precisely do samples show what is visible of the weights?"""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array
from segre.geometry.recovery.descent import triangle
from segre.geometry.recovery.samples import NotDetermined, Samples
from segre.geometry.recovery.visible import derivatives
from segre.spec import Network

_EPS = float(np.finfo(np.float64).eps)


def standard_errors(spec: Network, vector: Array, samples: Samples) -> list[Array]:
    """How far off each entry of `canonical` may be, if residuals are independent noise.

    The variance of the noise is that of the residuals. It passes through the Jacobian of the
    outputs to the weights, and through the derivative of `canonical`. Along the fiber both are
    zero up to rounding; singular values are not taken for smaller than their own rounding
    errors, so that such directions add no more than the noise itself, while directions that
    outputs see, however weakly, add what they should. No tolerance tells one from the other.
    """
    R, _, squares = triangle(spec, vector, samples)
    norms = np.linalg.norm(R, axis=0)
    norms[norms == 0] = 1.0
    _, sizes, rows = np.linalg.svd(R / norms, full_matrices=False)
    floor = _EPS * R.shape[1] * sizes[0]
    rank = int((sizes > floor).sum())
    freedom = samples.Y.size - rank
    if freedom <= 0:
        raise NotDetermined(
            f"{samples.Y.size} outputs for {rank} unknowns are too few to estimate errors; give "
            "more inputs"
        )
    noise = np.sqrt(squares / freedom)
    spread = rows.T / (np.maximum(sizes, floor) * norms[:, None])
    return [
        np.asarray(noise * np.linalg.norm(slope @ spread, axis=-1))
        for slope in derivatives(spec, vector)
    ]
