"""What does a network do at a point? Batches of inputs, and rows of its Jacobian, within limits.

>>> from segre.kernel.residues import Residues
>>> from segre.kernel.network import graph_of
>>> from segre.polynomial.spec import Polynomial
>>> graph = graph_of(Polynomial.parse("poly/2-1/degree=2"))
>>> field = Residues(103, 0)
>>> point = Point(graph, field, field.weights(graph))
>>> point.jacobian([(0, 0)], lambda numbers: Batch(np.array([[[3], [5]]]))).tolist()
[[3, 5]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from segre.kernel.arrays import Array, Evaluation, Numbers
from segre.kernel.derivative import Backwards
from segre.kernel.graph import Graph, Node, Place, evaluate
from segre.kernel.meter import Progress, Rates, meter, silently

_AT_ONCE = 64 << 20  # bytes of the values of a batch
ROW_BYTES = 160  # of a row that is asked for, as Python lists it
_ANGLE = 8  # functions that cos and sin of an angle cost
_FUNCTIONS = ("inverse", "root", "exp", "phi", "step", "choose")


@dataclass(frozen=True)
class Batch:
    """Inputs, and their salts by input, source and token; without any, all are 0."""

    inputs: Array
    salts: NDArray[np.uint64] | None = None


Inputs = Callable[[Sequence[int]], Batch]


@dataclass(frozen=True)
class Point:
    """A network with all weights chosen, over some numbers."""

    graph: Graph
    numbers: Numbers
    weights: Mapping[Place, Array]

    @cached_property
    def effort(self) -> Effort:
        """What an evaluation takes."""
        return Effort.of(self.graph)

    def at_once(self) -> int:
        """How large a batch may be."""
        each = self.numbers.bytes * (self.effort.held + self.effort.weights)
        return max(1, _AT_ONCE // each)

    def evaluate(self, batch: Batch) -> tuple[Evaluation, list[Array]]:
        """The values of all nodes, paid for."""
        size = len(batch.inputs)
        meter().charge(self.effort.there(self.numbers.rates, size))
        meter().require_bytes(self.numbers.bytes * self.effort.held * size)
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
        effort, rates = self.effort, self.numbers.rates
        width = self.graph.parameters if columns is None else len(columns)
        meter().require_bytes(self.numbers.bytes * len(rows) * width)
        result = np.tile(self.numbers.array([0], (1,)), (len(rows), width))
        done = 0
        for some in _passes(rows, self.at_once()):
            numbers = sorted({rows[i][0] for i in some})
            meter().charge(effort.back(rates, len(some)))
            held = (len(some) + len(numbers)) * effort.held + len(some) * effort.weights
            meter().require_bytes(self.numbers.bytes * held)
            place = {number: i for i, number in enumerate(numbers)}
            evaluation, values = self.evaluate(inputs(numbers))
            these = [(place[rows[i][0]], rows[i][1]) for i in some]
            found = Backwards(self.graph, evaluation, values, these).gradients()
            result[some] = found if columns is None else found[:, columns]
            done += len(some)
            progress("Jacobian rows", done, len(rows))
        return result

    def work(self, rows: Sequence[tuple[int, int]]) -> float:
        """The seconds that rows of the Jacobian will be charged."""
        total, rates = 0.0, self.numbers.rates
        for some in _passes(rows, self.at_once()):
            inputs = len({rows[i][0] for i in some})
            total += self.effort.there(rates, inputs) + self.effort.back(rates, len(some))
        return total

    def passes(self, count: int) -> float:
        """The seconds that so many inputs will be charged."""
        rounds, rates = 1 + count // self.at_once(), self.numbers.rates
        return rounds * self.effort.there(rates, 0) + self.effort.there(rates, count)


def _passes(rows: Sequence[tuple[int, int]], most: int) -> list[list[int]]:
    """Which rows (by their place) are taken together: not too many, and of few inputs."""
    order = sorted(range(len(rows)), key=lambda i: rows[i][0])
    return [order[i : i + most] for i in range(0, len(order), most)]


# What an evaluation takes.


@dataclass(slots=True)
class Effort:
    """Of one element of a batch, but for `steps`, the operations on arrays of any size.

    >>> graph = Graph((4, 3))
    >>> y = graph.exp(graph.contract("vd,dt->vt", graph.weight("1", "W", (2, 4)), graph.input))
    >>> Effort.of(graph)
    Effort(steps=4, entries=26, functions=18, products=24, held=32, weights=8)
    """

    steps: int = 0
    entries: int = 0  # that are handled
    functions: int = 0  # of an entry
    products: int = 0  # of matrices: multiplications
    held: int = 0  # entries of all values
    weights: int = 0

    @classmethod
    def of(cls, graph: Graph) -> Effort:
        """The effort of one evaluation."""
        effort = cls(steps=len(graph.nodes), weights=graph.parameters)
        for node in graph.nodes:
            size = prod(node.shape)
            effort.held += size
            if node.op in _FUNCTIONS:
                effort.functions += size
            elif node.op == "contract":
                effort.products += _products(graph, node)
                effort.entries += size + sum(prod(graph.shape(arg)) for arg in node.args)
            elif node.op == "input":
                effort.functions += size
            elif node.op == "constant" and node.data.kind in ("cos", "sin"):
                effort.functions += _ANGLE * size
            elif node.op != "weight":
                effort.entries += size
        return effort

    def there(self, rates: Rates, batch: int) -> float:
        """The seconds of an evaluation of a batch."""
        each = self.entries * rates.entry + self.functions * rates.function
        return self.steps * rates.step + batch * (each + self.products * rates.product)

    def back(self, rates: Rates, rows: int) -> float:
        """The seconds of so many rows of the Jacobian, taken together."""
        entries = 2 * self.entries + 4 * self.functions + 2 * self.weights
        each = entries * rates.entry + 2 * self.products * rates.product
        return 3 * self.steps * rates.step + rows * each


def _products(graph: Graph, node: Node) -> int:
    sides, _ = node.data.split("->")
    sizes: dict[str, int] = {}
    for letters, arg in zip(sides.split(","), node.args, strict=True):
        for letter, size in zip(letters, graph.shape(arg), strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return prod(sizes.values())
