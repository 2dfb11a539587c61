"""Two-dimensional cuts of the space of one-layer functions, and a curve on a fiber.

Everything to draw is computed here; report/ only draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from segre.errors import SegreError
from segre.fields.interface import Array
from segre.fields.linear import Floats
from segre.fields.real import Real
from segre.geometry.strata import Stratum, classify
from segre.network import forward
from segre.spec import Network
from segre.weights import Weights


@dataclass(frozen=True)
class Cone:
    """The Segre cone in two cuts.

    With V = x1 V1 + x2 V2 and A = y1 A1 + y2 A2 the functions are the matrices z = x y^T, those
    2 x 2 matrices with z11 z22 = z12 z21. `cone` is the linear cut z12 = z21, a quadratic cone with
    its vertex at the zero function, in the coordinates z11 - z22, 2 z12, z11 + z22. `quadric` is
    the affine cut z11 + z22 = 1 in z11 - z22, z12 + z21, z12 - z21: a hyperboloid, ruled by the
    lines of constant V and of constant A.
    """

    cone: tuple[Array, Array, Array]
    quadric: tuple[Array, Array, Array]
    rulings_V: list[Array]
    rulings_A: list[Array]


def segre_cone(points: int = 61) -> Cone:
    """The cone over the Segre variety P^1 x P^1, cut to surfaces."""
    radius, angle = np.meshgrid(np.linspace(-1, 1, points), np.linspace(0, np.pi, points))
    cone = (radius * np.cos(2 * angle), radius * np.sin(2 * angle), radius)
    turn, height = np.meshgrid(np.linspace(0, 2 * np.pi, points), np.linspace(-1, 1, points))
    # with c = z11 - z22, s = z12 + z21, h = z12 - z21 the equation is c^2 + s^2 - h^2 = 1
    swell = np.sqrt(1 + height**2)
    quadric = (swell * np.cos(turn), swell * np.sin(turn), height)
    span = np.linspace(-1, 1, 2)
    lines: dict[int, list[Array]] = {1: [], -1: []}
    for start in np.linspace(0, 2 * np.pi, 24, endpoint=False):
        for sign in (1, -1):
            line = np.stack(
                [
                    np.cos(start) - sign * span * np.sin(start),
                    np.sin(start) + sign * span * np.cos(start),
                    span,
                ]
            )
            lines[sign].append(line)
    return Cone(cone, quadric, lines[1], lines[-1])


@dataclass(frozen=True)
class Placed:
    """A function placed in the discriminant slice: its coordinates and its stratum."""

    label: str
    x: float
    y: float
    stratum: Stratum


@dataclass(frozen=True)
class Discriminant:
    """Products of two linear forms in two variables, up to scale: b^2 >= 4 a c.

    The quadratic a X^2 + b X Y + c Y^2 is drawn at (a - c, b) / (a + c): forms outside the unit
    circle are products of real linear forms, the circle is the squares (the wall), inside are the
    definite forms, which the Zariski closure has and no real weights reach.
    """

    wall: Array
    placed: list[Placed]


def discriminant(points: list[tuple[str, Array, Array, int]]) -> Discriminant:
    """The slice, with functions (label, V = u w^T, A = k q^T, a), d = 2, placed in it."""
    turn = np.linspace(0, 2 * np.pi, 361)
    placed = [_place(*point) for point in points]
    return Discriminant(np.stack([np.cos(turn), np.sin(turn)]), placed)


def _place(label: str, V: Array, A: Array, a: int) -> Placed:
    algebra = Floats()
    V, A = V.astype(float), A.astype(float)
    if V.shape[1] != 2 or algebra.rank(V) != 1 or algebra.rank(A) != 1:
        raise SegreError(
            f"point {label} is not on this slice; allowed: d = 2, with V and A of rank one"
        )
    w = V[np.argmax(np.abs(V).sum(axis=1))]
    k = A[:, np.argmax(np.abs(A).sum(axis=0))]
    form = np.array([w[0] * k[0], w[0] * k[1] + w[1] * k[0], w[1] * k[1]])
    total = form[0] + form[2]
    if abs(total) < 1e-12 * np.abs(form).max():
        raise SegreError(f"point {label} has a + c = 0, which is at infinity in this slice")
    return Placed(label, (form[0] - form[2]) / total, form[1] / total, classify(V, A, a))


@dataclass(frozen=True)
class FiberCurve:
    """A closed curve of weights on one fiber, three of them to draw, and the outputs along it."""

    spec: Network
    parameter: Array
    names: tuple[str, str, str]
    curve: Array
    outputs: Array

    @property
    def deviation(self) -> float:
        """How much the outputs change along the curve, relative: rounding only."""
        spread = np.abs(self.outputs - self.outputs[0]).max()
        return float(spread / np.abs(self.outputs).max())


def fiber_curve(weights: Weights, steps: int = 241) -> FiberCurve:
    """Move the first head by G(s) = rotation(s) diag(e^u, e^-u), u = 0.6 sin 2s: a closed curve."""
    spec = weights.network
    if spec.layers[0].a < 2:
        raise SegreError(
            f"spec {str(spec)!r}: the curve rotates a query-key basis, which needs a >= 2"
        )
    weights = Weights(spec, weights.vector.astype(float))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2, spec.widths[0], spec.t))
    places = np.linspace(0, 2 * np.pi, steps)
    curve, outputs = [], []
    for s in places:
        moved = turned(weights, float(s))
        first = moved.layers[0]
        curve.append([first.W_Q[0, 0, 0], first.W_Q[0, 1, 0], first.W_K[0, 0, 0]])
        outputs.append(forward(Real(), spec, moved.vector, X).reshape(-1)[:8])
    names = ("W_Q[0,0]", "W_Q[1,0]", "W_K[0,0]")
    return FiberCurve(spec, places, names, np.array(curve), np.array(outputs))


def turn(s: float) -> Array:
    """The matrix G(s) of two dimensions: a rotation times a stretch; it is 1 at 0 and at 2 pi."""
    stretch = np.exp(0.6 * np.sin(2 * s))
    rotation = np.array([[np.cos(s), -np.sin(s)], [np.sin(s), np.cos(s)]])
    return np.asarray(rotation @ np.diag([stretch, 1 / stretch]))


def turned(weights: Weights, s: float) -> Weights:
    """The weights with the query-key basis of the first head changed by G(s): the same function."""
    first, *rest = weights.layers
    G = np.eye(first.W_Q.shape[1])
    G[:2, :2] = turn(s)
    W_Q, W_K = first.W_Q.copy(), first.W_K.copy()
    W_Q[0], W_K[0] = G @ W_Q[0], np.linalg.solve(G.T, W_K[0])
    return Weights.of_layers(weights.spec, [replace(first, W_Q=W_Q, W_K=W_K), *rest])
