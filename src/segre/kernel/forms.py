"""Which linear forms are constant on a value, whatever the input is? Facts about a graph alone.

A form is a direction along an axis; its value does not depend on the input. There are three
sources (docs/soundness.md, "Forms"): what a norm with means subtracted gives sums to zero, the
columns of a softmax sum to one, and so do those of token sequences, soft or not. Gains, biases and
numbers carry forms on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from segre.kernel.document import Spec
from segre.kernel.graph import Graph, Node, Place, Region
from segre.kernel.residues import Residues
from segre.kernel.variation import ONES, Direction, times

Matrix = np.typing.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Form:
    """A direction along columns, and what it gives: an array, None for zero, and a key."""

    direction: Direction
    value: Matrix | None = None  # of size 1 along columns
    key: Any = ()


ZERO, ONE = Form(ONES), Form(ONES, np.ones((1, 1), np.int64))


class Facts:
    """The weights at the point, and what follows from them."""

    def __init__(self, spec: Spec, graph: Graph, field: Residues) -> None:
        self.spec, self.graph, self.field = spec, graph, field
        drawn = field.weights(graph)
        self.weights: dict[Place, Matrix] = {place: array[0] for place, array in drawn.items()}
        self.prime, self.number = field.prime, field.number
        self.regions = {region.output: region for region in graph.regions}
        self.forms: list[Form | None] = []
        self.known: dict[type, Any] = {}  # see spans.py
        ends = list(accumulate(graph.blocks, initial=0))
        self.simplices = {tuple(range(*block)) for block in pairwise(ends)}
        self._check_regions()
        inside = {i for region in graph.regions for i in range(region.first, region.output)}
        for i, node in enumerate(graph.nodes):
            found = None
            if self.tokens(i):
                found = ONE
            elif i in self.regions:
                found = self._of_region(self.regions[i])
            elif i not in inside and node.op in ("take", "scale", "mul", "add"):
                found = getattr(self, "_" + node.op)(node)
            self.forms.append(found)

    def _check_regions(self) -> None:
        """Only its inputs, weights and numbers enter a region, and only its output leaves it."""
        nodes, regions = self.graph.nodes, self.graph.regions
        home = {i: one for one in regions for i in range(one.first, one.output + 1)}
        for i, node in enumerate(nodes):
            for arg in node.args:
                before, after, op = home.get(arg), home.get(i), nodes[arg].op
                own = before is after and op != "weight"
                leaves = before is None or arg == before.output or op in ("weight", "constant")
                enters = after is None or arg in after.inputs or op == "constant"
                if not (own or (leaves and enters)):
                    raise AssertionError(f"node {i} must not read node {arg} of a region")

    def vector(self, direction: Direction, size: int) -> Matrix:
        """The entries of a direction at the point."""
        result = np.ones(size, np.int64)
        for place, power in direction:
            entries = self.weights[place].reshape(-1)
            entries = self.field.inverse(entries) if power < 0 else entries
            result = self.field.mul(result, self.field.power_of(entries, abs(power)))
        return result

    def product(self, *factors: Matrix) -> Matrix:
        """A product of matrices of any whole numbers, mod p."""
        result = factors[0] % self.prime
        for factor in factors[1:]:
            result = self.field.matmul(result[None], factor[None] % self.prime)[0]
        return result

    def row(self, tangent: Mapping[Any, Matrix]) -> Matrix:
        """A tangent vector: by tensors, or by (tensor, n) for its part n along the first axis."""
        result = np.zeros(self.graph.parameters, np.int64)
        for name, moved in tangent.items():
            place, number = name if isinstance(name[1], int) else (name, 0)
            first = self.graph.tensors[place].offset + number * moved.size
            result[first : first + moved.size] = moved.reshape(-1) % self.prime
        return result

    def place(self, node: int) -> Place | None:
        """The tensor, if a node is one."""
        data = self.graph.nodes[node].data
        return data.place if self.graph.nodes[node].op == "weight" else None

    def uses(self, place: Place) -> list[int]:
        """The nodes that are applied to a tensor."""
        tensor = self.graph.tensors[place].node
        return [i for i, node in enumerate(self.graph.nodes) if tensor in node.args]

    def tokens(self, node: int) -> bool:
        """Whether a node is the columns of tokens, or of their types, in the input: (F3)."""
        one = self.graph.nodes[node]
        if one.op != "take" or self.graph.nodes[one.args[0]].op != "input":
            return False
        axis, places = one.data
        return axis == -2 and places in self.simplices

    def on_axis(self, node: int) -> int | None:
        """The axis of a weight that is a vector along one axis (and has size 1 along others)."""
        if self.place(node) is None:
            return None
        shape = self.graph.shape(node)
        long = [i - len(shape) for i, size in enumerate(shape) if size > 1]
        return long[0] if len(long) == 1 else None

    def numbers(self, node: int) -> tuple[Matrix, Any] | None:
        """The entries of a weight, of places in one, or of a rational number, and a name."""
        one = self.graph.nodes[node]
        if one.op == "take" and (found := self.numbers(one.args[0])):
            return np.take(found[0], one.data[1], one.data[0]), (found[1], one.data)
        if one.op == "weight":
            return self.weights[one.data.place], one.data.place
        if one.op == "constant" and one.data.kind == "rational":
            number = self.number(one.data.data)
            return np.full(one.shape, number, np.int64), number
        return None

    def _of_region(self, region: Region) -> Form | None:
        params = region.params
        if region.name == "norm":
            return ZERO if params["centred"] and params["axes"] == (-2,) else None
        divided = params.get("sums", ())[-1:] == (-2,)
        return (ZERO if params.get("centred") else ONE) if divided else None

    def _take(self, node: Node) -> Form | None:
        form, axis = self.forms[node.args[0]], node.data[0]
        if form is None or axis == -2:
            return None
        return form if form.value is None or form.value.shape[axis] == 1 else None

    def _scale(self, node: Node) -> Form | None:
        form, number = self.forms[node.args[0]], self.number(node.data)
        if form is None or form.value is None:
            return form
        return replace(form, value=form.value * number % self.prime, key=(form.key, number))

    def _whole_form(self, arg: int, node: Node) -> Form | None:
        """The form of an argument whose columns are no shorter than those of the node."""
        if len(node.shape) < 2:
            return None
        return self.forms[arg] if size_along(self.graph, arg, -2) == node.shape[-2] else None

    def _mul(self, node: Node) -> Form | None:
        """A gain divides the direction; other factors of columns keep a form that is zero."""
        for one, other in (node.args, node.args[::-1]):
            form, place = self._whole_form(one, node), self.place(other)
            if form is not None and place is not None and self.on_axis(other) == -2:
                return replace(form, direction=times(form.direction, ((place, 1),), -1))
            if form is not None and form.value is None and size_along(self.graph, other, -2) == 1:
                return form
        return None

    def _add(self, node: Node) -> Form | None:
        """A bias adds to the value."""
        for one, other in (node.args, node.args[::-1]):
            form, place = self._whole_form(one, node), self.place(other)
            if form is None or place is None or size_along(self.graph, other, -2) < node.shape[-2]:
                continue
            line = self.vector(form.direction, node.shape[-2])[:, None]
            more = (self.weights[place] * line % self.prime).sum(-2, keepdims=True)
            value = (more + (0 if form.value is None else form.value)) % self.prime
            return Form(form.direction, value, (form.key, form.direction, place))
        return None


def size_along(graph: Graph, node: int, axis: int) -> int:
    """The size of an axis, counted from the last one; 1 if it is not there."""
    shape = graph.shape(node)
    return shape[axis] if len(shape) >= -axis else 1
