"""Gradient flow of a small network, and what stays the same along it.

The loss is half the mean squared error against targets; its gradient is J^T r, with the Jacobian
that all of segre uses. The flow dw/dt = -gradient is integrated to a tolerance by the embedded
Runge-Kutta pair 5(4) of Dormand and Prince (1980). Gradient descent, w -> w - step . gradient, is
here for contrast: a step changes a quadratic conserved quantity C by exactly step^2 C(gradient).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.errors import SegreError
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.geometry.conserved import Conserved, conserved_quantities
from segre.geometry.memory import inputs_at_once
from segre.json_data import stated
from segre.network import forward, jacobian
from segre.spec import Network
from segre.weights import Weights, common_kind

TOLERANCE = 1e-11
SMALLEST_TOLERANCE = 1e-14
MOST_STEPS = 100_000
_FINEST = 2.3e-14  # the smallest tolerance that SciPy takes relative to weights


@dataclass(frozen=True)
class Trajectory:
    """Weights during training: times (n,), points (n, parameters) and losses (n,)."""

    spec: Network
    times: Array
    points: Array
    losses: Array

    def __len__(self) -> int:
        return len(self.times)

    def weights(self, n: int) -> Weights:
        """The weights at point number n; -1 is the end."""
        return Weights(self.spec, self.points[n])

    @property
    def moved(self) -> float:
        """The distance from start to end, relative to the norm of the weights at the start."""
        return _norm(self.points[-1] - self.points[0]) / (_norm(self.points[0]) or 1.0)


def loss_and_gradient(spec: Network, vector: Array, X: Array, Y: Array) -> tuple[float, Array]:
    """Half the mean squared error of the outputs at inputs X against Y, and its gradient."""
    field = Real()
    loss, gradient = 0.0, np.zeros(spec.parameters)
    at_once = inputs_at_once(spec)
    for start in range(0, len(X), at_once):
        some = X[start : start + at_once]
        error = (forward(field, spec, vector, some) - Y[start : start + at_once]).reshape(-1)
        J = jacobian(field, spec, vector, some).reshape(-1, spec.parameters)
        loss += float(error @ error) / (2 * Y.size)
        gradient += error @ J / Y.size
    return loss, gradient


def gradient_flow(
    weights: Weights, X: Array, Y: Array, time: float, *, tolerance: float = TOLERANCE
) -> Trajectory:
    """Integrate dw/dt = -gradient for some time, with a local error of `tolerance` per step.

    X holds inputs (n, d0, t), Y targets (n, dl, t). The times are those the integrator chose.
    """
    _require_data(weights.spec, X, Y)
    if not 0 <= time < np.inf:
        raise SegreError(f"time {time!r} is not allowed; allowed: numbers that are not negative")
    if not SMALLEST_TOLERANCE <= tolerance < 1:
        raise SegreError(
            f"tolerance {tolerance!r} is not allowed; allowed: {SMALLEST_TOLERANCE} to 1"
        )
    spec = weights.spec

    def slope(w: Array) -> tuple[float, Array]:
        loss, gradient = loss_and_gradient(spec, w, X, Y)
        return loss, -gradient

    return _trajectory(spec, integrate(slope, _floats(weights), time, tolerance))


def gradient_descent(weights: Weights, X: Array, Y: Array, step: float, steps: int) -> Trajectory:
    """`steps` steps w -> w - step . gradient; time is step times their number."""
    _require_data(weights.spec, X, Y)
    if not 0 < step < np.inf or steps < 0:
        raise SegreError(
            f"{steps} steps of size {step!r} are not allowed; allowed: 0 or more "
            "steps of a size above 0"
        )
    spec, w = weights.spec, _floats(weights)
    course = []
    with np.errstate(over="ignore", invalid="ignore"):  # divergence is reported once, at the end
        for n in range(steps + 1):
            loss, gradient = loss_and_gradient(spec, w, X, Y)
            course.append((n * step, w, loss))
            w = w - step * gradient
    return _trajectory(spec, course)


def _trajectory(spec: Network, course: list[tuple[float, Array, float]]) -> Trajectory:
    times, points, losses = zip(*course, strict=True)
    found = Trajectory(spec, np.array(times), np.array(points), np.array(losses))
    if not (np.isfinite(found.points).all() and np.isfinite(found.losses).all()):
        raise SegreError(
            "training diverged: a weight or the loss is not finite; use a smaller step"
        )
    return found


def integrate(
    slope: Callable[[Array], tuple[float, Array]], w: Array, time: float, tolerance: float
) -> list[tuple[float, Array, float]]:
    """(time, weights, loss) at the steps of the adaptive method, from 0 to `time`.

    The error of a step is measured against 1 + |w|, entry by entry, in the mean square. The
    last stage is evaluated at the new point, so an accepted step costs six gradients.
    """
    from scipy.integrate import RK45

    loss = 0.0

    def derivative(_now: float, w: Array) -> Array:
        nonlocal loss
        loss, found = slope(w)
        return found

    course = [(0.0, w, slope(w)[0])]
    with np.errstate(over="ignore", invalid="ignore"):
        solver = RK45(derivative, 0.0, w, time, rtol=max(tolerance, _FINEST), atol=tolerance)
        while solver.t < time and len(course) <= MOST_STEPS and solver.status == "running":
            solver.step()
            if solver.status != "failed":
                course.append((float(solver.t), solver.y, loss))
    if solver.t >= time:
        return course
    raise SegreError(
        f"the flow needs more than {MOST_STEPS} steps up to time {time}; choose a shorter time, "
        f"or a tolerance larger than {tolerance}"
    )


@dataclass(frozen=True)
class Change:
    """How much a conserved quantity, and the sides it is the difference of, changed at most.

    Both relative to the norms of the two sides at the start, which do not cancel.
    """

    quantity: Conserved
    change: float
    sides: float

    def document(self) -> dict[str, Any]:
        """The change as plain data, for JSON."""
        return {**self.quantity.document(), "change": self.change, "sides": self.sides}


@dataclass(frozen=True)
class Drift:
    """The change of every conserved quantity, compared with the total effect of training."""

    changes: tuple[Change, ...]
    moved: float
    loss_before: float
    loss_after: float

    @property
    def worst(self) -> float:
        """The largest relative change of a conserved quantity."""
        return max((change.change for change in self.changes), default=0.0)

    def document(self) -> dict[str, Any]:
        """The drift as plain data, for JSON."""
        return stated(self, "worst moved loss_before loss_after changes")


def drift(trajectory: Trajectory, quantities: Sequence[Conserved] | None = None) -> Drift:
    """The largest change of each conserved quantity along a trajectory.

    >>> spec = Network.parse("lightning/d=2,2/a=1/t=2")
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((2, 4, 2, 2))
    >>> found = drift(gradient_flow(Weights.random(spec), X, Y, time=10.0))
    >>> found.worst < 1e-9, found.moved > 0.1, found.loss_after < found.loss_before
    (True, True, True)
    """
    laws = conserved_quantities(trajectory.spec) if quantities is None else quantities
    start, field = trajectory.weights(0), Real()
    before = [law.sides(field, start.layers) for law in laws]
    scales = [_norm(plus) + _norm(minus) or 1.0 for plus, minus in before]
    largest = np.zeros((len(laws), 2))
    for n in range(1, len(trajectory)):
        layers = trajectory.weights(n).layers
        for number, law in enumerate(laws):
            plus, minus = (
                now - then
                for now, then in zip(law.sides(field, layers), before[number], strict=True)
            )
            sizes = _norm(plus - minus), max(_norm(plus), _norm(minus))
            largest[number] = np.maximum(largest[number], sizes)
    changes = tuple(
        Change(law, float(change) / scale, float(sides) / scale)
        for law, scale, (change, sides) in zip(laws, scales, largest, strict=True)
    )
    losses = trajectory.losses
    return Drift(changes, trajectory.moved, float(losses[0]), float(losses[-1]))


def _norm(array: Array) -> float:
    return float(np.linalg.norm(array))


def _floats(weights: Weights) -> Array:
    return common_kind([weights.vector, np.zeros(0)])[0]


def _require_data(spec: Network, X: Array, Y: Array) -> None:
    inputs, targets = (spec.widths[0], spec.t), (spec.widths[-1], spec.t)
    if X.ndim != 3 or X.shape[1:] != inputs or Y.shape != (len(X), *targets) or not len(X):
        raise SegreError(
            f"inputs of shape {X.shape} and targets of shape {Y.shape} do not fit "
            f"{str(spec)!r}; allowed: (n, {inputs[0]}, {inputs[1]}) and "
            f"(n, {targets[0]}, {targets[1]}) with the same n"
        )
