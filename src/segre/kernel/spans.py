"""In which space do the columns of a value lie, and which forms of it are read at all?

The lemmas are *Unreached* and *Unread* of docs/soundness.md, "Spans".

`Images` goes through a graph forwards: a basis of a space (by leading axes such as heads) that
contains all columns, for all inputs, and a shift if they lie in an affine space. `Readings` goes
backwards: a basis of the forms of columns on which outputs depend. Where a rank at the point is not
the largest that the sizes allow, the whole space is taken, which is always right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from segre.kernel.forms import Facts, Matrix
from segre.kernel.graph import Graph, Node, Region
from segre.kernel.linear import annihilator, rank
from segre.kernel.meter import meter

_BASIS_BYTES = 130  # for an entry of the basis of a whole space, and for its annihilator


@dataclass(frozen=True, slots=True)
class Span:
    """A basis (columns) for every leading index, and what is added to all of its vectors."""

    basis: Matrix  # (*leading, size, dimension)
    shift: Matrix | None = None  # (*leading, size, tokens or 1): it may differ from token to token


def stacked(array: Matrix) -> Matrix:
    """The matrices of all leading indices, one after the other."""
    shape = array.shape
    return np.ascontiguousarray(array).reshape(prod(shape[:-2]), *shape[-2:])


def orthogonal(basis: Matrix, prime: int) -> Matrix:
    """The vectors (rows) that are orthogonal to all columns of a basis."""
    if basis.shape[1] == 0:
        return np.eye(basis.shape[0], dtype=np.int64)
    return annihilator(basis.T, prime)


class _Spaces:
    """What both directions share."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.graph, self.prime = facts, facts.graph, facts.prime
        self.eyes: dict[int, Matrix] = {}
        self.inside = {
            i for region in facts.graph.regions for i in range(region.first, region.output)
        }

    def whole(self, shape: tuple[int, ...]) -> Matrix:
        """The whole space of columns of a value of this shape."""
        size = shape[-2]
        if size not in self.eyes:
            meter().require_bytes(_BASIS_BYTES * size * size)
            self.eyes[size] = np.eye(size, dtype=np.int64)
        return np.broadcast_to(self.eyes[size], (*shape[:-2], size, size))

    def product(self, a: Matrix, b: Matrix) -> Matrix:
        """Products of matrices."""
        result: Matrix = self.facts.field.matmul(a, b)
        return result

    def reduced(self, basis: Matrix) -> Matrix:
        """The same space, or the whole one unless the rank is the largest for these sizes."""
        size, count = basis.shape[-2:]
        if count >= size or any(rank(one, self.prime) < count for one in stacked(basis)):
            return self.whole((*basis.shape[:-1], 1))
        return basis

    def map_of(self, node: Node) -> tuple[Matrix, int, bool] | None:
        """The weight W of W x, for every head: (heads, rows, columns); x; whether heads add up."""
        left, _, right = node.data.partition(",")
        right, _, out = right.partition("->")
        numbers = self.facts.numbers(node.args[0])
        if numbers is None or left[-1] != right[-2] or left[-2] != out[-2] or right[-1] != out[-1]:
            return None
        lead, theirs, mine = left[:-2], right[:-2], out[:-2]
        if theirs not in ("", lead) or mine not in ("", lead):
            return None
        return numbers[0], node.args[1], bool(lead) and not mine


class Images(_Spaces):
    """The spaces of columns, node by node."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.spans: list[Span] = []
        for i, node in enumerate(self.graph.nodes):
            region, span = facts.regions.get(i), None
            if region is not None:
                span = self._norm(region) if region.name == "norm" else None
            elif i not in self.inside:
                rule: Callable[[Node], Span | None] = getattr(self, "_" + node.op, _nothing)
                span = rule(node) if len(node.shape) > 1 else None
            self.spans.append(span or Span(self.whole((1, *node.shape))[0]))

    def forms(self, node: int) -> list[Matrix]:
        """For every leading index the forms (rows) that are constant on all columns of a node."""
        span = self.spans[node]
        basis, shift = span.basis, span.shift
        if shift is not None:
            differences = (shift[..., 1:] - shift[..., :1]) % self.prime
            basis = self.reduced(np.concatenate([basis, differences], -1))
        flat = stacked(basis)
        return [orthogonal(one, self.prime) for one in flat]

    def _weight(self, node: Node) -> Span:
        """A weight is the same for all inputs."""
        return Span(np.zeros((*node.shape[:-1], 0), np.int64), self.facts.weights[node.data.place])

    def _contract(self, node: Node) -> Span | None:
        found = self.map_of(node)
        if found is not None:
            W, x, summed = found
            span = self.spans[x]
            basis = self.product_by_heads(W, span.basis)
            shift = None
            if span.shift is not None:
                shift = self.product_by_heads(W, span.shift)
            if summed:
                lead = tuple(range(basis.ndim - 2))
                shift = None if shift is None else shift.sum(lead) % self.prime
                basis = np.moveaxis(basis, -2, 0).reshape(basis.shape[-2], -1)
            return Span(self.reduced(basis), shift)
        if node.data in ("govm,gqmt->gqvt", "nvm,nmt->nvt"):
            values, weights = node.args
            lead = (*node.shape[:-2], *self.spans[values].basis.shape[-2:])
            span = self._linear(self.spans[values], self.facts.forms[weights].get(-2))
            shift = span.shift
            if shift is not None:
                shift = np.broadcast_to(shift, (*node.shape[:-1], 1))
            return Span(np.broadcast_to(span.basis, (*lead[:-1], span.basis.shape[-1])), shift)
        if node.data == "nvt,n->vt":  # by one
            span = self.spans[node.args[0]]
            return Span(span.basis[0], None if span.shift is None else span.shift[0])
        return None

    def product_by_heads(self, W: Matrix, basis: Matrix) -> Matrix:
        """W times the basis, for every head of W."""
        lead = W.shape[:-2]
        basis = np.broadcast_to(basis, (*lead, *basis.shape[-2:]))
        a, b = stacked(W), stacked(basis)
        return self.product(a, b).reshape(*lead, a.shape[1], b.shape[2])

    def _linear(self, span: Span, form: Any) -> Span:
        """Without a shift, unless the factors of all columns sum to one."""
        one = form is not None and form.value is not None
        if span.shift is None or (one and span.shift.shape[-1] == 1):
            return span
        return Span(self.reduced(np.concatenate([span.basis, span.shift], -1)))

    def _total(self, node: Node) -> Span | None:
        """The sum over heads."""
        (arg,) = node.args
        span = self.spans[arg]
        if node.data != (-3,) or span.basis.ndim != 3:
            return None
        basis = np.moveaxis(span.basis, -2, 0).reshape(1, node.shape[-2], -1)
        shift = None if span.shift is None else span.shift.sum(0, keepdims=True) % self.prime
        return Span(self.reduced(basis), shift)

    def _add(self, node: Node) -> Span:
        one, other = (self._widened(arg, node) for arg in node.args)
        shift = one.shift if other.shift is None else other.shift
        if one.shift is not None and other.shift is not None:
            shift = (one.shift + other.shift) % self.prime
        return Span(self.reduced(np.concatenate([one.basis, other.basis], -1)), shift)

    def _widened(self, arg: int, node: Node) -> Span:
        """The span of a summand, for the leading axes of the sum."""
        if len(self.graph.shape(arg)) < 2:
            return Span(self.whole(node.shape))
        span, lead = self.spans[arg], node.shape[:-2]
        basis = np.broadcast_to(span.basis, (*lead, node.shape[-2], span.basis.shape[-1]))
        if span.shift is None:
            return Span(basis)
        return Span(basis, np.broadcast_to(span.shift, (*node.shape[:-1], span.shift.shape[-1])))

    def _mul(self, node: Node) -> Span | None:
        for one, other in (node.args, node.args[::-1]):
            shape = self.graph.shape(other)
            if self.facts.on_axis(other) == -2:
                gain = self.facts.weights[self.facts.place(other) or ("", "")].reshape(-1)
                span = self.spans[one]
                basis = span.basis * gain[:, None] % self.prime
                shift = None if span.shift is None else span.shift * gain[:, None] % self.prime
                return Span(basis, shift)
            if len(shape) > 1 and shape[-2] == 1 and self.graph.shape(one)[-2] > 1:
                return self._linear(self._widened(one, node), None)
        return None

    def _scale(self, node: Node) -> Span:
        (arg,) = node.args
        span, number = self.spans[arg], self.facts.number(node.data)
        shift = None if span.shift is None else span.shift * number % self.prime
        return Span(span.basis, shift)

    def _take(self, node: Node) -> Span | None:
        axis, places = node.data
        span = self.spans[node.args[0]]
        if axis != -1:
            return None
        if span.shift is None or span.shift.shape[-1] == 1:
            return span
        return Span(span.basis, span.shift[..., places])

    def _join(self, node: Node) -> Span | None:
        """Columns of several values; each has its own shifts."""
        if node.data != -1:
            return None
        spans = [self.spans[arg] for arg in node.args]
        basis = self.reduced(np.concatenate([span.basis for span in spans], -1))
        shifts = []
        for arg, span in zip(node.args, spans, strict=True):
            shift = np.zeros((*node.shape[:-1], 1), np.int64) if span.shift is None else span.shift
            shifts.append(np.broadcast_to(shift, (*node.shape[:-1], self.graph.shape(arg)[-1])))
        return Span(basis, np.concatenate(shifts, -1))

    def _norm(self, region: Region) -> Span | None:
        """Every column is multiplied by a number, after its mean was taken from it."""
        if region.params["axes"] != (-2,):
            return None
        span = self._linear(self.spans[region.inputs[0]], None)
        basis, size = span.basis, span.basis.shape[-2]
        if not region.params["centred"]:
            return span
        if basis.shape[-1] == size:
            eye = np.eye(size, size - 1, dtype=np.int64)
            eye[-1] = self.prime - 1
            return Span(np.broadcast_to(eye, (*basis.shape[:-2], size, size - 1)))
        mean = basis.sum(-2, keepdims=True) % self.prime * pow(size, -1, self.prime)
        return Span(self.reduced((basis - mean) % self.prime))


class Readings(_Spaces):
    """The forms of columns on which outputs depend: rows, by leading index of every node."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        graph = self.graph
        self.forms: list[Matrix] = [_no_rows(node.shape) for node in graph.nodes]
        self.forms[graph.output] = self.whole(graph.shape(graph.output))
        for i in range(graph.output, -1, -1):
            node, region = graph.nodes[i], facts.regions.get(i)
            if i in self.inside or not self.forms[i].shape[-2]:
                continue
            if region is not None:
                if region.name not in ("softmax", "pattern") or not one_key(region, graph):
                    for arg in region.inputs:
                        self._read(arg, self.whole((1, *graph.shape(arg)))[0])
                continue
            rule = getattr(self, "_" + node.op, self._all)
            rule(node, self.forms[i])

    def vectors(self, node: int) -> list[Matrix]:
        """For every leading index the vectors (rows) of a node that no form sees."""
        rows = self.forms[node]
        flat = stacked(rows)
        return [orthogonal(one.T, self.prime) for one in flat]

    def _read(self, node: int, rows: Matrix) -> None:
        """More rows are read of a node."""
        if len(self.graph.shape(node)) < 2:
            return
        rows = np.concatenate([self.forms[node], rows], -2)
        self.forms[node] = self.reduced(rows.swapaxes(-1, -2)).swapaxes(-1, -2)

    def _all(self, node: Node, _rows: Matrix) -> None:
        for arg in node.args:
            self._read(arg, self.whole((1, *self.graph.shape(arg)))[0])

    def _contract(self, node: Node, rows: Matrix) -> None:
        found = self.map_of(node)
        if found is not None:
            W, x, _ = found
            lead = W.shape[:-2]
            rows = np.broadcast_to(rows, (*lead, *rows.shape[-2:]))
            a, b = stacked(rows), stacked(W)
            rows = self.product(a, b).reshape(*lead, a.shape[1], b.shape[2])
            if len(self.graph.shape(x)) == 2:
                rows = rows.reshape(-1, rows.shape[-1])
            self._read(x, rows)
        elif node.data in ("govm,gqmt->gqvt", "nvm,nmt->nvt"):
            values, weights = node.args
            shape = self.graph.shape(values)
            self._read(values, rows.reshape(*shape[:-2], -1, shape[-2]))
            self._read(weights, self.whole(self.graph.shape(weights)))
        elif node.data == "nvt,n->vt":
            self._read(node.args[0], rows[None])
        else:
            self._all(node, rows)

    def _add(self, node: Node, rows: Matrix) -> None:
        for arg in node.args:
            shape = self.graph.shape(arg)
            if shape[:-1] == node.shape[:-1]:
                self._read(arg, rows)
            else:
                self._read(arg, self.whole((1, *shape))[0])

    def _mul(self, node: Node, rows: Matrix) -> None:
        for one, other in (node.args, node.args[::-1]):
            shape, theirs = self.graph.shape(one), self.graph.shape(other)
            if shape == node.shape and len(theirs) > 1 and theirs[-2] == 1:
                self._read(one, rows)
            else:
                self._read(one, self.whole((1, *shape))[0])

    def _scale(self, node: Node, rows: Matrix) -> None:
        self._read(node.args[0], rows)

    def _total(self, node: Node, rows: Matrix) -> None:
        shape = self.graph.shape(node.args[0])
        if node.data != (-3,):
            self._all(node, rows)
            return
        self._read(node.args[0], np.broadcast_to(rows, (*shape[:-2], *rows.shape[-2:])))

    def _take(self, node: Node, rows: Matrix) -> None:
        if node.data[0] != -1:
            self._all(node, rows)
            return
        self._read(node.args[0], rows)


def images(facts: Facts) -> Images:
    """The spaces of columns, computed once."""
    if "images" not in facts.spans:
        facts.spans["images"] = Images(facts)
    found: Images = facts.spans["images"]
    return found


def readings(facts: Facts) -> Readings:
    """The forms that are read, computed once."""
    if "readings" not in facts.spans:
        facts.spans["readings"] = Readings(facts)
    found: Readings = facts.spans["readings"]
    return found


def one_key(region: Region, graph: Graph) -> bool:
    """Whether every query sees a single key, and no sink: its weight is then a constant."""
    seen, (scores, *others) = region.params["seen"], region.inputs
    if region.name == "softmax" and others:
        return False
    if region.name == "pattern" and "mechanism" not in region.params:
        return False
    if region.name == "pattern" and region.params["mechanism"].normalise == "none":
        return False
    if seen is None:
        return graph.shape(scores)[-2] == 1
    return bool((seen.table().sum(0) <= 1).all())


def _no_rows(shape: tuple[int, ...]) -> Matrix:
    shape = (1, 1, *shape)[-max(len(shape), 2) :]
    return np.zeros((*shape[:-2], 0, shape[-2]), np.int64)


def _nothing(_node: Node) -> None:
    return None
