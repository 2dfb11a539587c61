"""What does a network do at a point? Batches of inputs, and rows of its Jacobian, within limits.

>>> from segre.kernel.residues import Residues
>>> from segre.kernel.polynomial import polynomial
>>> from segre.polynomial.spec import Polynomial
>>> graph = polynomial(Polynomial.parse("poly/2-1/degree=2"))
>>> field = Residues(103, 0)
>>> point = Point(graph, field, field.weights(graph))
>>> point.jacobian([(0, 0)], lambda numbers: Batch(np.array([[[3], [5]]]))).tolist()
[[3, 5]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from segre.kernel.arrays import Array, Evaluation, Numbers
from segre.kernel.derivative import gradients
from segre.kernel.effort import Effort
from segre.kernel.graph import Graph, Place, evaluate
from segre.kernel.meter import meter

_AT_ONCE = 64 << 20  # bytes of the values of a batch
_MANY = 16  # rows of one input that are worth a pass of their own


@dataclass(frozen=True)
class Batch:
    """Inputs, and their salts by input, source and token; without any, all are 0."""

    inputs: Array
    salts: NDArray[np.uint64] | None = None


Inputs = Callable[[Sequence[int]], Batch]
Progress = Callable[[str, int, int], None]


def silently(_what: str, _done: int, _total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class Point:
    """A network with all weights chosen, over some numbers."""

    graph: Graph
    numbers: Numbers
    weights: Mapping[Place, Array]

    def evaluate(self, batch: Batch) -> tuple[Evaluation, list[Array]]:
        """The values of all nodes."""
        evaluation = Evaluation(self.numbers, self.weights, batch.inputs, batch.salts)
        return evaluation, evaluate(self.graph, evaluation)

    def jacobian(
        self,
        rows: Sequence[tuple[int, int]],
        inputs: Inputs,
        columns: Sequence[int] | None = None,
        progress: Progress = silently,
    ) -> Array:
        """Rows (number of the input, output entry), by all weights or those of some columns."""
        effort, rates = Effort.of(self.graph), self.numbers.rates
        width = self.graph.parameters if columns is None else len(columns)
        meter().require_bytes(self.numbers.bytes * len(rows) * width)
        result = np.tile(self.numbers.array([0], (1,)), (len(rows), width))
        done = 0
        for some in _passes(rows, effort, self.numbers):
            numbers = sorted({rows[i][0] for i in some})
            meter().charge(effort.there(rates, len(numbers)) + effort.back(rates, len(some)))
            meter().require_bytes(self.numbers.bytes * (effort.held + effort.weights) * len(some))
            place = {number: i for i, number in enumerate(numbers)}
            evaluation, values = self.evaluate(inputs(numbers))
            these = [(place[rows[i][0]], rows[i][1]) for i in some]
            found = gradients(self.graph, evaluation, values, these)
            result[some] = found if columns is None else found[:, columns]
            done += len(some)
            progress("Jacobian rows", done, len(rows))
        return result

    def work(self, rows: Sequence[tuple[int, int]]) -> float:
        """The seconds that rows of the Jacobian will be charged."""
        effort, rates, total = Effort.of(self.graph), self.numbers.rates, 0.0
        for some in _passes(rows, effort, self.numbers):
            inputs = len({rows[i][0] for i in some})
            total += effort.there(rates, inputs) + effort.back(rates, len(some))
        return total


def at_once(effort: Effort, bytes_: int = 8) -> int:
    """How large a batch may be, if an entry has so many bytes."""
    return max(1, _AT_ONCE // (bytes_ * (effort.held + effort.weights)))


def _passes(rows: Sequence[tuple[int, int]], effort: Effort, numbers: Numbers) -> list[list[int]]:
    """Which rows (by their place) are taken together: not too many, and of few inputs."""
    most = at_once(effort, numbers.bytes)
    order = sorted(range(len(rows)), key=lambda i: rows[i][0])
    passes: list[list[int]] = []
    loose: list[int] = []
    for _, group in groupby(order, key=lambda i: rows[i][0]):
        some = list(group)
        if len(some) < _MANY:
            loose += some
        else:
            passes += [some[i : i + most] for i in range(0, len(some), most)]
    return passes + [loose[i : i + most] for i in range(0, len(loose), most)]
