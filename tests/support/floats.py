"""The kernel's graphs in floating point, to be compared with other implementations."""

from fractions import Fraction
from typing import Any

import numpy as np
from flint import ctx
from scipy.special import ndtr

from segre.kernel.arrays import Array, Evaluation, Numbers, Salts
from segre.kernel.balls import Balls
from segre.kernel.derivative import Backwards
from segre.kernel.graph import Choice, Graph, Rate, evaluate
from segre.kernel.meter import ARRAYS
from segre.kernel.residues import cut
from segre.transformer.spec import Transformer


class Floats(Numbers):
    """Numbers in double precision."""

    dtype = float
    rates = ARRAYS
    bytes = 8

    def matmul(self, A: Array, B: Array) -> Array:
        return A @ B

    def number(self, value: Any) -> float:
        return float(Balls().number(value))

    def inverse(self, a: Array) -> Array:
        return 1 / a

    def root(self, a: Array, salts: Salts) -> Array:
        return np.sqrt(a)

    def exp(self, a: Array, salts: Salts) -> Array:
        return np.exp(a)

    def phi(self, a: Array, salts: Salts) -> Array:
        return ndtr(a)

    def density(self, a: Array, salts: Salts) -> Array:
        return np.exp(-(a**2) / 2) / np.sqrt(2 * np.pi)

    def step(self, a: Array, salts: Salts) -> Array:
        return (a > 0).astype(float)

    def choose(self, a: Array, salts: Salts, choice: Choice) -> Array:
        return (
            Balls()
            .choose(a.astype(object) * Balls().number(Fraction(1)), salts, choice)
            .astype(float)
        )

    def rotation(self, spec: Transformer, positions: int) -> tuple[Array, Array]:
        cos, sin = Balls().rotation(spec, positions)
        return cos.astype(float), sin.astype(float)

    def power(self, rate: Fraction | Rate, exponents: int) -> list[Any]:
        return [float(x) for x in Balls().power(rate, exponents)]


def outputs(graph: Graph, weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """The outputs at some inputs (matrices), with this vector of weights."""
    with ctx.workprec(128):
        evaluation = Evaluation(Floats(), cut(graph, weights[None]), inputs)
        found = evaluate(graph, evaluation)[graph.output]
    return np.broadcast_to(found, (len(inputs), *found.shape[1:]))


def jacobian(graph: Graph, weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """All derivatives, by input, output entry and weight."""
    count = int(np.prod(graph.shape(graph.output)))
    with ctx.workprec(128):
        evaluation = Evaluation(Floats(), cut(graph, weights[None]), inputs)
        values = evaluate(graph, evaluation)
        rows = [(n, o) for n in range(len(inputs)) for o in range(count)]
        return (
            Backwards(graph, evaluation, values, rows).gradients().reshape(len(inputs), count, -1)
        )
