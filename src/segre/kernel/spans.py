"""In which space do the columns of a value lie, and which forms of it are read at all?

The lemmas are *Unreached* and *Unread* of docs/soundness.md, "Spans".

The columns of many values are sums of linear images of the columns of earlier ones, by a `Link` for
each. `Images` follows the links forwards: a basis of a space (by leading axes such as heads) that
contains all columns, for all inputs, up to a shift. `Readings` follows them backwards: a basis of
the forms of columns on which outputs depend. Where a rank at the point is not the largest that the
sizes allow, the whole space is taken, which is always right.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np

from segre.kernel.forms import Facts, Matrix
from segre.kernel.graph import Graph, Node, Region, Shape
from segre.kernel.linear import annihilator, rank
from segre.kernel.meter import meter

_BASIS_BYTES = 130  # for an entry of the basis of a whole space, and for its annihilator
_MIXING = ("govm,gqmt->gqvt", "nvm,nmt->nvt")  # values, and how much a query takes of each


@dataclass(frozen=True, slots=True)
class Span:
    """All columns lie in s + span A, with a basis A for every leading index.

    `shift` has s for every token, or one s for all of them, or no column if there is none.
    """

    basis: Matrix  # (*leading, size, dimension)
    shift: Matrix  # (*leading, size, tokens or 1 or 0)


@dataclass(frozen=True, slots=True)
class Link:
    """Columns of `arg`, times a matrix W or a factor for every row.

    What is `mixed` is a combination of columns, or a multiple of one.
    """

    arg: int
    W: Matrix | None = None  # (*leading, rows, columns)
    factor: Matrix | None = None  # (rows, 1)
    mixed: bool = False


class _Spaces:
    """What both directions share."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.graph, self.prime = facts, facts.graph, facts.prime
        self.eyes: dict[int, Matrix] = {}
        self.inside = {i for one in self.graph.regions for i in range(one.first, one.output)}

    @classmethod
    def of(cls, facts: Facts) -> Self:
        """What is known about a network, computed once."""
        if cls not in facts.known:
            facts.known[cls] = cls(facts)
        found: Self = facts.known[cls]
        return found

    def whole(self, shape: Shape) -> Matrix:
        """The whole space of columns of a value of this shape."""
        shape = (1, *shape)[-max(len(shape), 2) :]
        size = shape[-2]
        if size not in self.eyes:
            meter().require_bytes(_BASIS_BYTES * size * size)
            self.eyes[size] = np.eye(size, dtype=np.int64)
        return np.broadcast_to(self.eyes[size], (*shape[:-2], size, size))

    def reduced(self, basis: Matrix) -> Matrix:
        """The same space, or the whole one unless the rank is the largest for these sizes."""
        size, count = basis.shape[-2:]
        if count >= size or any(rank(one, self.prime) < count for one in _stacked(basis)):
            return self.whole((*basis.shape[:-1], 1))
        return basis

    def orthogonal(self, basis: Matrix) -> list[Matrix]:
        """For every leading index the vectors (rows) that are orthogonal to all columns."""
        if basis.shape[-1] == 0:
            return list(_stacked(self.whole(basis.shape)))
        return [annihilator(one.T, self.prime) for one in _stacked(basis)]

    def moved(self, array: Matrix, W: Matrix | None, factor: Matrix | None) -> Matrix:
        """Columns times the matrix and the factors of a link."""
        if W is not None:
            lead = np.broadcast_shapes(W.shape[:-2], array.shape[:-2])
            both = (np.broadcast_to(X, (*lead, *X.shape[-2:])) for X in (W, array))
            found = self.facts.field.matmul(*map(_stacked, both))
            array = found.reshape(*lead, *found.shape[1:])
        return array if factor is None else array * factor % self.prime

    def map_of(self, node: Node) -> tuple[Matrix, int] | None:
        """W, by heads, and x, if a product is W x; what heads give may be added up."""
        left, _, right = node.data.partition(",")
        right, _, out = right.partition("->")
        numbers = self.facts.numbers(node.args[0])
        if numbers is None or left[-1] != right[-2] or left[-2] != out[-2] or right[-1] != out[-1]:
            return None
        if right[:-2] not in ("", left[:-2]) or out[:-2] not in ("", left[:-2]):
            return None
        return numbers[0], node.args[1]

    def links(self, node: Node) -> list[Link]:
        """What the columns of a value are the sum of; nothing if that is not known."""
        if node.op == "contract":
            if (found := self.map_of(node)) is not None:
                return [Link(found[1], W=found[0])]
            if node.data in _MIXING or node.data == "nvt,n->vt":  # by one
                return [Link(node.args[0], mixed=node.data in _MIXING)]
        elif node.op == "add" and all(self._rows(arg) == node.shape[-2] for arg in node.args):
            return [Link(arg) for arg in node.args]
        elif node.op == "mul":
            return self._by_factor(node)
        elif node.op == "scale":
            number = self.facts.number(node.data)
            return [Link(node.args[0], factor=np.full((node.shape[-2], 1), number))]
        elif (node.op, node.data) == ("total", (-3,)) or (node.op == "take" and node.data[0] == -1):
            return [Link(node.args[0])]
        return []

    def _rows(self, node: int) -> int:
        """The size of columns; 0 if there are none."""
        return (0, *self.graph.shape(node))[-2]

    def _by_factor(self, node: Node) -> list[Link]:
        """A product with a gain, or with a number for every column."""
        for one, other in (node.args, node.args[::-1]):
            place, own = self.facts.place(other), self._rows(one) == node.shape[-2]
            if own and place is not None and self.facts.on_axis(other) == -2:
                return [Link(one, factor=self.facts.weights[place].reshape(-1, 1))]
            if own and self._rows(other) == 1 < node.shape[-2]:
                return [Link(one, mixed=True)]
        return []


class Images(_Spaces):
    """The spaces of columns, node by node."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.spans: list[Span] = []
        for i, node in enumerate(self.graph.nodes):
            known = i not in self.inside and len(node.shape) > 1
            self.spans.append((self._span(i, node) if known else None) or self._all(node.shape))

    def forms(self, node: int) -> list[Matrix]:
        """For every leading index the forms (rows) that are constant on all columns of a node."""
        span = self.spans[node]
        differences = (span.shift[..., 1:] - span.shift[..., :1]) % self.prime
        return self.orthogonal(self.reduced(np.concatenate([span.basis, differences], -1)))

    def _all(self, shape: Shape) -> Span:
        """Columns of which nothing is known but their size."""
        basis = self.whole(shape)
        return Span(basis, basis[..., :0])

    def _span(self, i: int, node: Node) -> Span | None:
        region = self.facts.regions.get(i)
        if region is not None:
            return self._norm(region) if region.name == "norm" else None
        if node.op == "weight":  # the same for all inputs
            weights = self.facts.weights[node.data.place]
            return Span(weights[..., :0], weights)
        if node.op == "join" and node.data == -1:
            return self._join(node)
        spans = [self._linked(link, node) for link in self.links(node)]
        return self._sum(spans) if spans else None

    def _linked(self, link: Link, node: Node) -> Span:
        """The span of what a link adds to a node."""
        span = self.spans[link.arg]
        if link.mixed:
            form = self.facts.forms[node.args[1]] if node.op == "contract" else None
            if form is None or form.value is None or span.shift.shape[-1] > 1:  # no sums of one
                span = self._without_shift(span)
        basis, shift = (self.moved(x, link.W, link.factor) for x in (span.basis, span.shift))
        if node.op == "take" and shift.shape[-1] > 1:
            shift = shift[..., node.data[1]]
        lead = node.shape[:-2]
        return Span(_led(basis, lead), _led(shift, lead, add=True) % self.prime)

    def _sum(self, spans: list[Span]) -> Span:
        shift = spans[0].shift
        for other in (span.shift for span in spans[1:]):
            both = shift.shape[-1] and other.shape[-1]
            shift = (shift + other) % self.prime if both else other if other.shape[-1] else shift
        return Span(self.reduced(np.concatenate([span.basis for span in spans], -1)), shift)

    def _without_shift(self, span: Span) -> Span:
        """The shift as one more vector."""
        basis = np.concatenate([span.basis, span.shift], -1)
        return Span(self.reduced(basis), span.shift[..., :0])

    def _join(self, node: Node) -> Span:
        """Columns of several values; each has its own shifts."""
        spans = [self.spans[arg] for arg in node.args]
        basis = self.reduced(np.concatenate([span.basis for span in spans], -1))
        shifts = []
        for arg, span in zip(node.args, spans, strict=True):
            shift = (
                span.shift if span.shift.shape[-1] else np.zeros((*node.shape[:-1], 1), np.int64)
            )
            shifts.append(np.broadcast_to(shift, (*node.shape[:-1], self.graph.shape(arg)[-1])))
        return Span(basis, np.concatenate(shifts, -1))

    def _norm(self, region: Region) -> Span | None:
        """Every column is multiplied by a number, after its mean was taken from it."""
        if region.params["axes"] != (-2,):
            return None
        span = self._without_shift(self.spans[region.inputs[0]])
        basis, size = span.basis, span.basis.shape[-2]
        if not region.params["centred"]:
            return span
        if basis.shape[-1] == size:
            eye = np.eye(size, size - 1, dtype=np.int64)
            eye[-1] = self.prime - 1
            basis = np.broadcast_to(eye, (*basis.shape[:-2], size, size - 1))
            return Span(basis, span.shift)
        mean = basis.sum(-2, keepdims=True) % self.prime * pow(size, -1, self.prime)
        return Span(self.reduced((basis - mean) % self.prime), span.shift)


class Readings(_Spaces):
    """The forms of columns on which outputs depend: as columns, by leading index of every node."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        graph = self.graph
        self.forms = [self.whole(node.shape)[..., :0] for node in graph.nodes]
        self.forms[graph.output] = self.whole(graph.shape(graph.output))
        for i in range(graph.output, -1, -1):
            node, region = graph.nodes[i], facts.regions.get(i)
            if i in self.inside or not self.forms[i].shape[-1]:
                continue
            args = node.args if region is None else region.inputs
            if region is not None and one_key(region, graph):
                args = ()
            known = self.links(node) if region is None else []
            for link in known:
                W = None if link.W is None else link.W.swapaxes(-1, -2)
                forms = self.forms[i] if link.factor is None else self.forms[i] * link.factor
                self._read(link.arg, self.moved(forms % self.prime, W, None))
            for arg in {*args} - {link.arg for link in known}:
                if facts.numbers(arg) is None:
                    self._read(arg, self.whole(graph.shape(arg)))

    def vectors(self, node: int) -> list[Matrix]:
        """For every leading index the vectors (rows) of a node that no form sees."""
        return self.orthogonal(self.forms[node])

    def _read(self, node: int, forms: Matrix) -> None:
        """More is read of a node."""
        known = self.forms[node]
        forms = np.concatenate([known, _led(forms, known.shape[:-2])], -1)
        self.forms[node] = self.reduced(forms)


def one_key(region: Region, graph: Graph) -> bool:
    """Whether every query sees a single key, and no sink: its weight is then a constant."""
    if region.params.get("sums", ())[-1:] != (-2,):
        return False
    seen = region.params["seen"]
    keys = graph.shape(region.inputs[0])[-2] if seen is None else seen.table().sum(0)
    return bool(np.all(keys <= 1))


def _stacked(array: Matrix) -> Matrix:
    """The matrices of all leading indices, one after the other."""
    shape = array.shape
    return np.ascontiguousarray(array).reshape(prod(shape[:-2]), *shape[-2:])


def _led(array: Matrix, lead: Shape, *, add: bool = False) -> Matrix:
    """Columns for other leading indices: the same for all, or those of several side by side.

    Or if `add`, the sums of those of several.
    """
    own, size = array.shape[:-2], array.shape[-2]
    extra = len(own) - len(lead)
    merged = tuple(i for i, n in enumerate(own) if i < extra or lead[i - extra] < n)
    array = array.sum(merged, keepdims=True) if add else array
    count = prod(array.shape[i] for i in merged) * array.shape[-1]
    kept = [1 if i in merged else n for i, n in enumerate(own)][max(extra, 0) :]
    array = np.moveaxis(array, merged, range(-len(merged) - 1, -1)).reshape(*kept, size, count)
    return np.broadcast_to(array, (*lead, size, count))
