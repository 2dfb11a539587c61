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


class Backwards:
    """The adjoints of all nodes, from the last one to the first.

    Rows are an element of the batch and an output entry.
    """

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
        """Rows of the Jacobian, by all weights in their order: the adjoints of the weights."""
        graph, count = self.graph, len(self.elements)
        zero = self.numbers.array([0], (1,))
        seed = np.tile(zero, (count, *graph.shape(graph.output)))
        seed.reshape(count, -1)[range(count), self.entries] = self.numbers.array([1], (1,))[0]
        self.bars[graph.output] = seed
        result = np.tile(zero, (count, graph.parameters))
        for number in range(graph.output, -1, -1):
            bar, self.bars[number] = self.bars[number], None
            node = graph.nodes[number]
            if bar is not None and node.op == "weight":
                place = slice(node.data.offset, node.data.offset + node.data.size)
                result[:, place] = bar.reshape(count, -1)
            elif bar is not None and self.live[number]:
                getattr(self, "_" + node.op)(node, bar, number)
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

    # One for each primitive: what its arguments get. Of several, some may not depend on weights.

    def _add(self, node: Node, bar: Array, _number: int) -> None:
        for arg in node.args:
            if self.live[arg]:
                self._give(arg, self._fitting(bar, arg))

    def _mul(self, node: Node, bar: Array, _number: int) -> None:
        for arg, other in zip(node.args, node.args[::-1], strict=True):
            if self.live[arg]:
                factor = aligned(self.value(other), len(node.shape))
                self._give(arg, self._fitting(self.numbers.mul(bar, factor), arg))

    def _contract(self, node: Node, bar: Array, _number: int) -> None:
        sides, result = node.data.split("->")
        left, right = sides.split(",")
        a, b = node.args
        for arg, own, other, letters in ((a, left, b, right), (b, right, a, left)):
            if self.live[arg]:
                subscripts = f"{result},{letters}->{own}"
                self._give(arg, self.numbers.contract(subscripts, bar, self.value(other)))

    def _join(self, node: Node, bar: Array, _number: int) -> None:
        first = 0
        for arg in node.args:
            size = self.graph.shape(arg)[node.data]
            if self.live[arg]:
                self._give(arg, bar.take(range(first, first + size), node.data))
            first += size

    def _total(self, node: Node, bar: Array, _number: int) -> None:
        (arg,) = node.args
        self._give(arg, np.broadcast_to(bar, (bar.shape[0], *self.graph.shape(arg))))

    def _take(self, node: Node, bar: Array, _number: int) -> None:
        (arg,), (axis, places) = node.args, node.data
        share = np.tile(self.numbers.array([0], (1,)), (bar.shape[0], *self.graph.shape(arg)))
        np.moveaxis(share, axis, 0)[list(places)] = np.moveaxis(bar, axis, 0)
        self._give(arg, share)

    def _scale(self, node: Node, bar: Array, _number: int) -> None:
        factor = self.numbers.array([self.numbers.number(node.data)], (1,))
        self._give(node.args[0], self.numbers.mul(bar, factor))

    def _inverse(self, node: Node, bar: Array, number: int) -> None:
        value = self.value(number)
        slope = self.numbers.reduce(-self.numbers.mul(value, value))
        self._give(node.args[0], self.numbers.mul(bar, slope))

    def _root(self, node: Node, bar: Array, number: int) -> None:
        """d root(q) = root(q) dq / (2 q), also where roots are drawn."""
        q = self.value(node.args[0])
        half = self.numbers.inverse(self.numbers.add(q, q))
        slope = self.numbers.mul(self.value(number), half)
        self._give(node.args[0], self.numbers.mul(bar, slope))

    def _exp(self, node: Node, bar: Array, number: int) -> None:
        self._give(node.args[0], self.numbers.mul(bar, self.value(number)))

    def _phi(self, node: Node, bar: Array, _number: int) -> None:
        density = self.point.density(node, self.values[node.args[0]])
        self._give(node.args[0], self.numbers.mul(bar, self._in_rows(density)))


def _live(graph: Graph) -> list[bool]:
    """Whether a node depends on weights, and not only by steps."""
    live: list[bool] = []
    for node in graph.nodes:
        moved = node.op not in ("step", "choose") and any(live[arg] for arg in node.args)
        live.append(node.op == "weight" or moved)
    return live
