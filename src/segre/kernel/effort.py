"""What will an evaluation of a graph take, and what will it hold? Counted before it is done.

>>> from segre.kernel.graph import Graph
>>> graph = Graph((4, 3))
>>> y = graph.exp(graph.contract("vd,dt->vt", graph.weight("1", "W", (2, 4)), graph.input))
>>> Effort.of(graph)
Effort(steps=4, entries=26, functions=18, products=24, held=32, weights=8)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from segre.kernel.graph import Graph, Node
from segre.kernel.meter import Rates

_ANGLE = 8  # functions that cos and sin of an angle cost
_FUNCTIONS = ("inverse", "root", "exp", "phi", "step", "choose")


@dataclass(slots=True)
class Effort:
    """Of one element of a batch, but for `steps`, the operations on arrays of any size."""

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
