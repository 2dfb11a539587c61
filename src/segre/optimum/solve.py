"""What is the minimum of the convex problem? Accelerated proximal gradient steps, in floats.

What comes out is an estimate. `certificate` makes a proved bound of it.
"""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array
from segre.geometry.progress import Progress, quiet
from segre.optimum.problem import Problem

MOST = 50_000  # steps
LOOK = 200  # steps between two looks at the gap
CLOSE = 1e-12  # of the objective


def minimiser(
    problem: Problem, *, close: float = CLOSE, most: int = MOST, progress: Progress = quiet
) -> Array:
    """Z (d^2, d c), with a duality gap of at most `close` of the objective if `most` steps do."""
    M, Y = problem.map, problem.targets
    top = float(np.linalg.eigvalsh(M.T @ M if M.shape[1] < M.shape[0] else M @ M.T)[-1])
    shape = (problem.d**2, problem.d * problem.c)
    Z = ahead = np.zeros(shape)
    if not 0 < top < np.inf:
        return Z
    speed = 1.0
    for step in range(most):
        slope = M.T @ (M @ problem.columns(ahead) - Y)
        after = shrunk(ahead - slope.reshape(shape) / top, problem.beta / top)
        if ((ahead - after) * (after - Z)).sum() > 0:  # going uphill: start anew
            speed = 1.0
        faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
        ahead = after + (speed - 1) / faster * (after - Z)
        Z, speed = after, faster
        if step % LOOK == LOOK - 1:
            gap, value = float_gap(problem, Z)
            if gap <= close * value:
                break
            progress(f"solving, gap {gap / value:.1e}", step, most)
    return Z


def shrunk(Z: Array, by: float) -> Array:
    """Singular values soft-thresholded."""
    U, s, V = np.linalg.svd(Z, full_matrices=False)
    return np.asarray((U * np.maximum(s - by, 0)) @ V)


def dual_point(problem: Problem, Z: Array) -> Array:
    """The residual at Z, made smaller until its image under the adjoint map has norm beta."""
    rest = problem.targets - problem.map @ problem.columns(Z)
    norm = np.linalg.norm(adjoint(problem, rest), 2)
    return np.asarray(rest * min(1.0, problem.beta / norm)) if norm else rest


def adjoint(problem: Problem, R: Array) -> Array:
    """The adjoint of the map from Z to predictions, at (samples, c): (d^2, d c)."""
    return np.asarray(problem.map.T @ R).reshape(problem.d**2, problem.d * problem.c)


def float_gap(problem: Problem, Z: Array) -> tuple[float, float]:
    """The duality gap at Z and the convex objective, in floats."""
    R, value = dual_point(problem, Z), problem.convex(Z)
    return value - float((R * problem.targets).sum() - (R**2).sum() / 2), value


def rank_of(Z: Array, relative: float = 1e-6) -> int:
    """The number of singular values above a relative tolerance."""
    s = np.linalg.svd(Z, compute_uv=False)
    return int((s > relative * s[0]).sum()) if s[0] else 0


def heads_of(problem: Problem, Z: Array) -> tuple[Array, Array]:
    """Balanced heads along the singular vectors of Z, with the same objective."""
    U, s, V = np.linalg.svd(Z, full_matrices=False)
    count = max(rank_of(Z), 1)
    roots = np.sqrt(s[:count])
    W_QK = (U[:, :count] * roots).T.reshape(count, problem.d, problem.d)
    W_OV = (roots[:, None] * V[:count]).reshape(count, problem.d, problem.c)
    return W_QK, W_OV
