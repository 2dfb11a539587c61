"""Where, near given weights, are the squared residuals of the samples least?

Levenberg-Marquardt with the exact Jacobian of `segre.network`, in QR form: the Jacobian is never
squared, and only a few inputs are differentiated at a time.
"""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array
from segre.fields.real import Real
from segre.geometry.memory import inputs_at_once
from segre.geometry.recovery.samples import Samples, relative
from segre.network import forward, jacobian
from segre.spec import Network

_ROUNDING = 1e-15  # relative residuals of this size are rounding
_CONVERGED = 1e-14  # so is a gain of this share of the squares
_STALLED = 20  # steps in a row that gain less than one part in ten thousand
_TRIALS = 16


def descend(spec: Network, samples: Samples, start: Array, steps: int = 300) -> Array:
    """Levenberg-Marquardt: weights near `start` with the least squared residuals.

    Steps are damped in units of each weight's own influence; the damping is raised until a step
    gains, and lowered as far as the gain was foreseen (Nielsen's rule).
    """
    x, damping = start, 1e-2
    goal = _ROUNDING**2 * float((samples.Y**2).sum())
    R, z, squares = triangle(spec, x, samples)
    stalled = 0
    for _ in range(steps):
        if not np.isfinite(R).all():
            break
        units = np.linalg.norm(R, axis=0)
        units = np.maximum(units, 1e-8 * units.max()) if units.any() else np.ones_like(units)
        growth = 2.0
        for _ in range(_TRIALS):
            step = _damped(R / units, z, damping) / units
            after = squared_error(spec, x + step, samples)
            if after < squares:
                break
            damping, growth = damping * growth, 2 * growth
        else:
            break
        moved = R @ step
        foreseen = -float(moved @ (2 * z + moved))
        ratio = min((squares - after) / foreseen, 1.0) if foreseen > 0 else 1.0
        damping = max(damping * max(0.2, 1 - (2 * ratio - 1) ** 3), 1e-16)
        stalled = stalled + 1 if squares - after < 1e-4 * squares else 0
        x = np.asarray(x + step)
        if after <= goal or foreseen <= _CONVERGED * squares or stalled >= _STALLED:
            break
        with np.errstate(all="ignore"):
            R, z, squares = triangle(spec, x, samples)
    return x


def squared_error(spec: Network, vector: Array, samples: Samples) -> float:
    """The sum of squared residuals; infinite if they are not finite."""
    with np.errstate(all="ignore"):
        r = forward(Real(), spec, vector, samples.X) - samples.Y
        total = float((r * r).sum())
    return total if np.isfinite(total) else float("inf")


def misfit(spec: Network, vector: Array, samples: Samples) -> float:
    """The relative error of the predicted outputs; infinite if they are not finite."""
    with np.errstate(all="ignore"):
        error = relative(forward(Real(), spec, vector, samples.X) - samples.Y, samples.Y)
    return error if np.isfinite(error) else float("inf")


def triangle(spec: Network, vector: Array, samples: Samples) -> tuple[Array, Array, float]:
    """R and z = Q^T r of J = Q R with residuals r, and r^T r; some inputs at a time."""
    P = spec.parameters
    kept = np.zeros((0, P + 1))
    step = inputs_at_once(spec)
    for i in range(0, len(samples), step):
        X, Y = samples.X[i : i + step], samples.Y[i : i + step]
        J = jacobian(Real(), spec, vector, X).reshape(-1, P)
        r = (forward(Real(), spec, vector, X) - Y).reshape(-1, 1)
        rows = np.concatenate([kept, np.concatenate([J, r], axis=1)])
        kept = np.asarray(np.linalg.qr(rows, mode="r"))
    return kept[:P, :P], kept[:P, P], float(kept[:, P] @ kept[:, P])


def _damped(R: Array, z: Array, damping: float) -> Array:
    """The step s with the least |R s + z|^2 + damping |s|^2, without squaring R."""
    n = R.shape[1]
    Q, triangular = np.linalg.qr(np.concatenate([R, np.sqrt(damping) * np.eye(n)]))
    return np.asarray(np.linalg.solve(triangular, -(Q[: len(R)].T @ z)))
