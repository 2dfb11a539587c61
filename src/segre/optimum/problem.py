"""What is minimised when linear attention is trained with weight decay, and what is the minimum?

Tokens are the rows of X. A layer with heads h maps X to  sum_h (X W_QK X^T) X W_OV,  and
training minimises

    1/2 sum_i |f(X_i) - Y_i|^2  +  beta/2 sum_h (|W_QK|^2 + |W_OV|^2).

The map f depends on the heads only through Z = sum_h vec(W_QK) vec(W_OV)^T, and linearly. The decay
is at least beta times the nuclear norm of Z, with equality if the heads are balanced and lie along
singular vectors. So

    1/2 sum_i |f_Z(X_i) - Y_i|^2  +  beta |Z|_*

is convex, and its minimum is that of training with enough heads (min(d^2, d c) always are).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from segre.errors import SegreError, TooLargeError
from segre.fields.interface import Array
from segre.fields.rational import Rational
from segre.fields.real import Real
from segre.geometry.progress import Progress, quiet
from segre.network import forward
from segre.spec import Network

MOST = 50_000  # steps
LOOK = 200  # steps between two looks at the gap
CLOSE = 1e-12  # of the objective
RELATIVE = 1e-6  # singular values that are smaller count as zero
LARGEST = 1 << 20  # numbers of the linear map from Z to predictions


@dataclass(frozen=True)
class Problem:
    """Inputs (N, n, d), targets (N, n, c) and the decay beta, in floats: they are exact numbers."""

    X: Array
    Y: Array
    beta: float

    def __post_init__(self) -> None:
        if self.X.ndim != 3 or self.Y.ndim != 3 or 0 in (*self.X.shape, *self.Y.shape):
            raise SegreError(
                f"X and Y have shapes {self.X.shape} and {self.Y.shape}; "
                "allowed: (sequences, tokens, d) and (sequences, tokens, c)"
            )
        if self.X.shape[:2] != self.Y.shape[:2]:
            raise SegreError(
                f"X has {self.X.shape[0]} sequences of {self.X.shape[1]} tokens, "
                f"Y has {self.Y.shape[0]} of {self.Y.shape[1]}; the numbers must be equal"
            )
        if not (np.isfinite(self.X).all() and np.isfinite(self.Y).all()):
            raise SegreError("X or Y has a NaN or an infinity; give finite numbers")
        if not (np.isfinite(self.beta) and self.beta > 0):
            raise SegreError(f"beta: {self.beta} is not allowed; allowed: numbers above 0")
        size = self.samples * self.d**3
        if size > LARGEST:
            raise TooLargeError(
                f"{self.samples} tokens of width {self.d} need a map of {size:,} numbers, over "
                f"the limit of {LARGEST:,}; give fewer sequences or a smaller width"
            )

    @property
    def d(self) -> int:
        """The width of a token."""
        return int(self.X.shape[2])

    @property
    def c(self) -> int:
        """The width of a target."""
        return int(self.Y.shape[2])

    @property
    def samples(self) -> int:
        """How many tokens there are in all sequences."""
        return int(self.X.shape[0] * self.X.shape[1])

    @cached_property
    def map(self) -> Array:
        """From Z to predictions: (samples, d^3), the same for each column of Y.

        Token x_j of X_i is mapped to x_j W_QK (X_i^T X_i) W_OV, so Z[(a, b), (k, e)] has the factor
        x_j[a] (X_i^T X_i)[b, k] in output e.
        """
        square = np.einsum("ina,inb->iab", self.X, self.X)
        return np.asarray(np.einsum("ija,ibk->ijabk", self.X, square)).reshape(self.samples, -1)

    @cached_property
    def targets(self) -> Array:
        """The targets of all tokens: (samples, c)."""
        return self.Y.reshape(self.samples, self.c)

    def columns(self, Z: Array) -> Array:
        """Z (d^2, d c) as a matrix (d^3, c), one column for each output."""
        return Z.reshape(self.d**3, self.c)

    def convex(self, Z: Array) -> float:
        """The convex objective, in floats."""
        rest = self.map @ self.columns(Z) - self.targets
        norms = np.linalg.svd(Z, compute_uv=False)
        return float((rest**2).sum() / 2 + self.beta * norms.sum())

    def weights(self, W_QK: Array, W_OV: Array) -> tuple[Array, Array]:
        """Weights (heads, d, d) and (heads, d, c) of floats, checked."""
        wanted = f"(heads, {self.d}, {self.d}) and (heads, {self.d}, {self.c})"
        fits = W_QK.ndim == W_OV.ndim == 3 and len(W_QK) == len(W_OV) > 0
        if not fits or (W_QK.shape[1:], W_OV.shape[1:]) != ((self.d, self.d), (self.d, self.c)):
            raise SegreError(
                f"W_QK and W_OV have shapes {W_QK.shape} and {W_OV.shape}; allowed: {wanted}"
            )
        if not (np.isfinite(W_QK).all() and np.isfinite(W_OV).all()):
            raise SegreError("W_QK or W_OV has a NaN or an infinity; give finite numbers")
        return W_QK.astype(np.float64), W_OV.astype(np.float64)

    def predictions(self, W_QK: Array, W_OV: Array, field: Real | Rational) -> Array:
        """The heads' predictions on X, by segre's forward map of lightning attention: (N, c, n)."""
        heads = len(W_QK)
        spec = Network.parse(
            f"lightning/d={self.d},{self.c}/a={self.d}/heads={heads}/t={self.X.shape[1]}"
        )
        one = np.broadcast_to(np.eye(self.d), W_QK.shape)
        parts = (one, W_QK.swapaxes(-1, -2), W_OV.swapaxes(-1, -2))
        vector = np.concatenate([part.reshape(-1) for part in parts])
        tokens = self.X.swapaxes(-1, -2)
        return forward(field, spec, field.constant(vector), field.constant(tokens))

    def objective(self, W_QK: Array, W_OV: Array) -> Fraction:
        """The training objective of given weights, exactly."""
        field = Rational()
        rest = self.predictions(W_QK, W_OV, field) - field.constant(self.Y.swapaxes(-1, -2))
        decay = sum(exact_square(part) for part in (W_QK, W_OV))
        total = sum((value * value for value in rest.reshape(-1)), start=field.constant(0).item())
        return Fraction(int(total.p), int(total.q)) / 2 + Fraction(self.beta) * decay / 2


def exact_square(x: Array) -> Fraction:
    """The sum of squares of floats, exactly."""
    return sum((Fraction(value) ** 2 for value in x.reshape(-1).tolist()), start=Fraction(0))


# --- its minimum: estimates in floats, of which `certificate` makes a proved bound ---------------


def minimiser(problem: Problem, *, progress: Progress = quiet) -> Array:
    """Z (d^2, d c), with a duality gap of at most `CLOSE` of the objective if `MOST` steps suffice.

    By accelerated proximal gradient steps.
    """
    M, Y = problem.map, problem.targets
    top = float(np.linalg.eigvalsh(M.T @ M if M.shape[1] < M.shape[0] else M @ M.T)[-1])
    shape = (problem.d**2, problem.d * problem.c)
    Z = ahead = np.zeros(shape)
    if not 0 < top < np.inf:
        return Z
    speed = 1.0
    for step in range(MOST):
        slope = M.T @ (M @ problem.columns(ahead) - Y)
        after = shrunk(ahead - slope.reshape(shape) / top, problem.beta / top)
        if ((ahead - after) * (after - Z)).sum() > 0:  # going uphill: start anew
            speed = 1.0
        faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
        ahead = after + (speed - 1) / faster * (after - Z)
        Z, speed = after, faster
        if step % LOOK == LOOK - 1:
            gap, value = float_gap(problem, Z)
            if gap <= CLOSE * value:
                break
            progress(f"solving, gap {gap / value:.1e}", step, MOST)
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


def rank_of(Z: Array) -> int:
    """The number of singular values above a relative tolerance."""
    s = np.linalg.svd(Z, compute_uv=False)
    return int((s > RELATIVE * s[0]).sum()) if s[0] else 0


def heads_of(problem: Problem, Z: Array) -> tuple[Array, Array]:
    """Balanced heads along the singular vectors of Z, with the same objective."""
    U, s, V = np.linalg.svd(Z, full_matrices=False)
    count = max(rank_of(Z), 1)
    roots = np.sqrt(s[:count])
    W_QK = (U[:, :count] * roots).T.reshape(count, problem.d, problem.d)
    W_OV = (roots[:, None] * V[:count]).reshape(count, problem.d, problem.c)
    return W_QK, W_OV
