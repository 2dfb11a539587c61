"""Weights of any architecture from samples, by least squares from several starts.

There are local minima: a start counts as a success only if it predicts inputs that it was not
fitted to, and the rate of successes is part of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.fields.draw import Stream
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.fields.real import Real
from segre.geometry.closed_form import closed_form
from segre.geometry.dimension import dimension
from segre.geometry.memory import inputs_at_once
from segre.geometry.recovery.lightning import Head
from segre.geometry.recovery.samples import Samples, TooFewInputs, relative
from segre.network import forward, jacobian, layer_starts
from segre.spec import Network
from segre.stack.stages import slots
from segre.weights import Weights

HELD_OUT = 0.25
_ROUNDING = 1e-15  # relative residuals of this size are rounding
_CONVERGED = 1e-14  # so is a gain of this share of the squares
_STALLED = 20  # steps in a row that gain less than one part in ten thousand
_TRIALS = 16


@dataclass(frozen=True, eq=False)
class Search:
    """The best of several starts, and how many predicted the inputs held out."""

    vector: Array
    residual: float
    residuals: tuple[float, ...]
    tolerance: float

    @property
    def starts(self) -> int:
        """How many starts there were."""
        return len(self.residuals)

    @property
    def successes(self) -> int:
        """How many of them predicted the inputs held out."""
        return sum(residual <= self.tolerance for residual in self.residuals)

    @property
    def success_rate(self) -> float:
        """Successes over starts."""
        return self.successes / self.starts


def fit(
    spec: Network,
    samples: Samples,
    *,
    starts: int = 20,
    seed: int = 0,
    tolerance: float = 1e-6,
    steps: int = 300,
) -> Search:
    """Fit three quarters of the samples from random weights, and judge by the rest.

    >>> from segre.fields import Real
    >>> from segre.network import forward
    >>> spec = Network.parse("softmax/d=2,2/a=1/t=2")
    >>> truth = Weights.random(spec, seed=1).vector
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 2))
    >>> fit(spec, Samples(X, forward(Real(), spec, truth, X)), starts=4).successes > 0
    True
    """
    order = np.random.default_rng(seed).permutation(len(samples))
    held = max(1, round(HELD_OUT * len(samples)))
    if held >= len(samples):
        raise TooFewInputs(
            "one input is not enough: some inputs are held out to verify the fit; give more"
        )
    known, unseen = samples[order[held:]], samples[order[:held]]
    require_determined(spec, known.X, seed)
    easier = _on_the_sphere(spec, known)
    size = float(np.sqrt(np.mean(easier.X**2)))
    found: list[tuple[float, Array]] = []
    for number in range(starts):
        vector = descend(spec, easier, _start(spec, easier, seed + number, size), steps)
        if easier is not known:
            vector = descend(spec, known, vector, steps)
        found.append((misfit(spec, vector, unseen), vector))
    best, vector = min(found, key=lambda pair: pair[0])
    return Search(vector, best, tuple(residual for residual, _ in found), tolerance)


def weights_of(spec: Network, head: Head) -> Array:
    """Weights of a one-head layer with the V and A that are nearest to the given ones."""
    layer = spec.layers[0]
    Q, K = _halves(head.A, layer.a)
    tensors = {"W_K": K, "W_Q": Q, "W_V": head.V}
    if layer.dv is not None:
        tensors["W_V"], out = _halves(head.V, layer.dv)
        tensors["W_O"] = out.T
    return np.concatenate([tensors[slot.name].reshape(-1) for slot in slots(layer)])


def inputs_needed(spec: Network) -> int:
    """Fewer inputs than this cannot determine a generic network of the spec."""
    return -(-_dimension(spec) // (spec.widths[-1] * spec.t))


def require_determined(spec: Network, X: Array, seed: int = 0) -> None:
    """Refuse inputs at which even generic weights could move without changing the outputs.

    The rank of the Jacobian at the given inputs (floats are fractions, and have residues) and
    random weights, mod p, against the dimension of the space of functions.
    """
    needed = _dimension(spec)
    field = Prime(seed=seed)
    given = [n * pow(m, -1, field.p) % field.p for n, m in map(_ratio, X.reshape(-1).tolist())]
    residues = field.constant(np.array(given, dtype=np.int64).reshape(X.shape))
    weights = field.draw(Stream.WEIGHTS, 0, (spec.parameters,))
    space = Echelon(spec.parameters, field)
    step = inputs_at_once(spec)
    for i in range(0, len(X), step):
        rows = jacobian(field, spec, weights, residues[i : i + step])
        space.add(rows.reshape(-1, spec.parameters))
        if space.rank >= needed:
            return
    more = -(-(needed - space.rank) // (spec.widths[-1] * spec.t))
    raise TooFewInputs(
        f"too few inputs: {len(X)} of {X.shape[1]} x {X.shape[2]} determine {space.rank} of the "
        f"{needed} dimensions of {str(spec)!r}; give at least {more} more for the fit, and a "
        "quarter of all inputs to verify it"
    )


def _dimension(spec: Network) -> int:
    """The dimension that inputs must determine; a proved lower bound where it is not known."""
    if spec.has_closed_form:
        return closed_form(spec).value
    lower = dimension(spec).lower
    assert lower is not None
    return lower


def _ratio(x: float) -> tuple[int, int]:
    return x.as_integer_ratio()


def _start(spec: Network, samples: Samples, seed: int, size: float) -> Array:
    """Random weights for inputs of this size, with the last value map that fits best.

    The output is linear in the last W_V (or W_O): one linear problem saves many steps.
    """
    vector = Weights.random(spec, seed).vector.copy()
    vector[: spec.layers[0].parameters] /= size
    last = slots(spec.layers[-1], layer_starts(spec)[-1])[-1]
    vector[last.range] = 0
    R, z, _ = triangle(spec, vector, samples)
    vector[last.range] = np.linalg.lstsq(R[:, last.range], -z, rcond=1e-10)[0]
    return vector


def _on_the_sphere(spec: Network, samples: Samples) -> Samples:
    """Lightning: inputs scaled to norm one, outputs with them, so that none outweighs the rest."""
    if not spec.mechanism.bilinear:
        return samples
    sizes = np.linalg.norm(samples.X, axis=(1, 2), keepdims=True)
    kept = sizes[:, 0, 0] > 0
    sizes = sizes[kept]
    with np.errstate(over="ignore"):
        return Samples(samples.X[kept] / sizes, samples.Y[kept] / sizes ** (3**spec.depth))


def _halves(matrix: Array, rank: int) -> tuple[Array, Array]:
    """(P, S) of `rank` rows each with S^T P nearest to the matrix, of equal size."""
    left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
    kept = min(rank, len(sizes))
    roots = np.sqrt(sizes[:kept])[:, None]
    P, S = np.zeros((rank, matrix.shape[1])), np.zeros((rank, matrix.shape[0]))
    P[:kept], S[:kept] = roots * right[:kept], roots * left[:, :kept].T
    return P, S


# --- descent --------------------------------------------------------------------------------------


def descend(spec: Network, samples: Samples, start: Array, steps: int = 300) -> Array:
    """Levenberg-Marquardt: weights near `start` with the least squared residuals.

    The Jacobian is the exact one of `segre.network`, in QR form: it is never squared, and only a
    few inputs are differentiated at a time. Steps are damped in units of each weight's own
    influence; the damping is raised until a step gains, and lowered as far as the gain was foreseen
    (Nielsen's rule).
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
