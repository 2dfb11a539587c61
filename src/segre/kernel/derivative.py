"""What are the derivatives of a network's outputs by its weights? Reverse mode over its graph.

All outputs are taken together: the adjoint of a node is an array with one row for each of them.
Written once for residues and balls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from segre.kernel.arrays import Array, Evaluation, aligned
from segre.kernel.graph import Graph, Node


def gradients(
    graph: Graph,
    point: Evaluation,
    values: list[Any],
    rows: Sequence[tuple[int, int]],
) -> Array:
    """Rows (element of the batch, output entry) of the Jacobian, by all weights in their order."""
    return _Backwards(graph, point, values, rows).gradients()


class _Backwards:
    """The adjoints of all nodes, from the last one to the first."""

    def __init__(
        self,
        graph: Graph,
        point: Evaluation,
        values: list[Any],
        rows: Sequence[tuple[int, int]],
    ) -> None:
        self.graph, self.point, self.numbers, self.values = graph, point, point.numbers, values
        self.elements = np.array([n for n, _ in rows])
        self.entries = np.array([entry for _, entry in rows])
        self.same = len(set(self.elements.tolist())) == 1
        self.live = _live(graph)
        self.bars: list[Array | None] = [None] * len(graph.nodes)

    def value(self, node: int) -> Array:
        """The value of a node in every row."""
        return self._in_rows(self.values[node])

    def _in_rows(self, value: Array) -> Array:
        if value.shape[0] > 1:
            value = value[self.elements[:1] if self.same else self.elements]
        return value

    def gradients(self) -> Array:
        """The adjoints of the weights, side by side."""
        graph, count = self.graph, len(self.elements)
        zero = self.numbers.array([0], (1,))
        seed = np.tile(zero, (count, *graph.shape(graph.output)))
        seed.reshape(count, -1)[range(count), self.entries] = self.numbers.array([1], (1,))[0]
        self.bars[graph.output] = seed
        result = np.tile(zero, (count, graph.parameters))
        for number in range(graph.output, -1, -1):
            bar, self.bars[number] = self.bars[number], None
            node = graph.nodes[number]
            if bar is None:
                continue
            if node.op == "weight":
                place = slice(node.data.offset, node.data.offset + node.data.size)
                result[:, place] = bar.reshape(count, -1)
            else:
                getattr(self, "_" + node.op)(number, node, bar)
        return result

    def _give(self, arg: int, share: Array) -> None:
        known = self.bars[arg]
        self.bars[arg] = share if known is None else self.numbers.add(known, share)

    def _fitting(self, bar: Array, arg: int) -> Array:
        """An adjoint summed over the axes along which the argument was repeated."""
        shape = self.graph.shape(arg)
        spread = len(bar.shape) - 1 - len(shape)
        wide = [i - len(shape) for i, size in enumerate(shape) if size < bar.shape[i + spread + 1]]
        axes = tuple(range(1, spread + 1)) + tuple(axis + bar.ndim for axis in wide)
        if axes:
            bar = self.numbers.sum(bar, axes)
        return bar.reshape(bar.shape[0], *shape)

    # One for each primitive: what its arguments get.

    def _input(self, number: int, node: Node, bar: Array) -> None:
        pass

    _constant = _step = _choose = _input

    def _add(self, number: int, node: Node, bar: Array) -> None:  # noqa: ARG002
        for arg in node.args:
            if self.live[arg]:
                self._give(arg, self._fitting(bar, arg))

    def _mul(self, number: int, node: Node, bar: Array) -> None:  # noqa: ARG002
        for arg, other in zip(node.args, node.args[::-1], strict=True):
            if self.live[arg]:
                factor = aligned(self.value(other), len(node.shape))
                self._give(arg, self._fitting(self.numbers.mul(bar, factor), arg))

    def _contract(self, number: int, node: Node, bar: Array) -> None:  # noqa: ARG002
        sides, result = node.data.split("->")
        left, right = sides.split(",")
        a, b = node.args
        for arg, own, other, letters in ((a, left, b, right), (b, right, a, left)):
            if self.live[arg]:
                subscripts = f"{result},{letters}->{own}"
                self._give(arg, self.numbers.contract(subscripts, bar, self.value(other)))

    def _total(self, number: int, node: Node, bar: Array) -> None:  # noqa: ARG002
        (arg,) = node.args
        if self.live[arg]:
            self._give(arg, np.broadcast_to(bar, (bar.shape[0], *self.graph.shape(arg))))

    def _scale(self, number: int, node: Node, bar: Array) -> None:  # noqa: ARG002
        self._slope(node, bar, self.numbers.array([self.numbers.number(node.data)], (1,)))

    def _slope(self, node: Node, bar: Array, slope: Array) -> None:
        (arg,) = node.args
        if self.live[arg]:
            self._give(arg, self.numbers.mul(bar, slope))

    def _inverse(self, number: int, node: Node, bar: Array) -> None:
        value = self.value(number)
        self._slope(node, bar, self.numbers.reduce(-self.numbers.mul(value, value)))

    def _root(self, number: int, node: Node, bar: Array) -> None:
        """d root(q) = root(q) dq / (2 q), also where roots are drawn."""
        double = self.numbers.add(self.value(node.args[0]), self.value(node.args[0]))
        slope = self.numbers.mul(self.value(number), self.numbers.inverse(double))
        self._slope(node, bar, slope)

    def _exp(self, number: int, node: Node, bar: Array) -> None:
        self._slope(node, bar, self.value(number))

    def _phi(self, number: int, node: Node, bar: Array) -> None:  # noqa: ARG002
        density = self.point.density(node, self.values[node.args[0]])
        self._slope(node, bar, self._in_rows(density))

    def _take(self, number: int, node: Node, bar: Array) -> None:  # noqa: ARG002
        (arg,) = node.args
        axis, places = node.data
        if self.live[arg]:
            shape = (bar.shape[0], *self.graph.shape(arg))
            share = np.tile(self.numbers.array([0], (1,)), shape)
            np.moveaxis(share, axis, 0)[list(places)] = np.moveaxis(bar, axis, 0)
            self._give(arg, share)

    def _join(self, number: int, node: Node, bar: Array) -> None:  # noqa: ARG002
        first = 0
        for arg in node.args:
            size = self.graph.shape(arg)[node.data]
            if self.live[arg]:
                self._give(arg, bar.take(range(first, first + size), node.data))
            first += size


def _live(graph: Graph) -> list[bool]:
    """Whether a node depends on weights."""
    live: list[bool] = []
    for node in graph.nodes:
        live.append(node.op == "weight" or any(live[arg] for arg in node.args))
    return live
