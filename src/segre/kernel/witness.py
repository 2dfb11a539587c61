"""Do exponentials and roots stand for independent functions? Section 5.

Both are shown mod p: by the differences of arguments at witness points, and by inputs at which one
radicand after the other has no root.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segre.kernel.arrays import Array, Salts
from segre.kernel.document import MANY, WORD, RejectionError, distinct, items, keys, whole
from segre.kernel.graph import Graph
from segre.kernel.linear import determinant, determinant_work
from segre.kernel.meter import ARRAYS, Progress, meter
from segre.kernel.point import Batch, Point
from segre.kernel.residues import WITNESS_INPUTS, WITNESS_WEIGHTS, Residues

MOST_SALTS = 1 << 20
_SALTED = MOST_SALTS << 40  # the most that a salt adds to the index of an input's entry


def most_inputs(graph: Graph) -> int:
    """How many inputs mod p there are: beyond, the random generator would wrap around."""
    return (WORD - _SALTED) // prod(graph.input_shape)


def read_salts(value: Any, where: str, graph: Graph, *, short: bool = False) -> Salts:
    """Salts by source and token; if short, sources at the end may be left out."""
    sources, tokens = graph.stages + 1, graph.input_shape[1]
    given = items(value, where, None if short else sources)
    if len(given) > sources:
        raise RejectionError(f"{where}: {len(given)} sources, but there are {sources}")
    salts = np.zeros((len(given), tokens), np.uint64)
    for s, own in enumerate(given):
        for c, salt in enumerate(items(own, f"{where}[{s}]", tokens)):
            salts[s, c] = whole(salt, f"{where}[{s}][{c}]", 0, MOST_SALTS - 1)
    return salts


# Independence.


@dataclass(frozen=True)
class Independence:
    """Witness points, each with the salts of its two inputs, and a determinant."""

    points: list[int]
    salts: NDArray[np.uint64]  # by point, input, source and token
    determinant: int


def argument_count(graph: Graph) -> int:
    """How many arguments of exponentials there are."""
    total = 0
    for argument in graph.arguments:
        shape = graph.shape(argument.node)
        pairs = None if argument.seen is None else int(argument.seen.table().sum())
        total += prod(shape) if pairs is None else prod(shape[:-2]) * pairs
    return total


def read_independence(value: Any, graph: Graph, prime: int) -> Independence | None:
    """The witness of independent arguments; without salts, all are 0."""
    if not graph.arguments:
        if value is not None:
            raise RejectionError("independence: nothing to be shown here; it must be null")
        return None
    names = ("arguments", "coordinates", "points", "determinant")
    keys(value, names, "independence", ("salts",))
    counts = {"arguments": argument_count(graph), "coordinates": prod(graph.input_shape)}
    for key, expected in counts.items():
        if whole(value[key], f"independence.{key}", 0, MANY) != expected:
            raise RejectionError(f"independence.{key}: {value[key]}, but there are {expected}")
    size = sum(counts.values())
    meter().require_bytes(8 * size * size)
    last = min(WORD // graph.parameters, most_inputs(graph) // 2) - 1
    points = [
        whole(point, f"independence.points[{i}]", 0, last)
        for i, point in enumerate(items(value["points"], "independence.points", size))
    ]
    distinct(points, "independence.points")
    shape = (size, 2, graph.stages + 1, graph.input_shape[1])
    salts = np.broadcast_to(np.zeros(1, np.uint64), shape)
    if "salts" in value:
        salts = salts.copy()
        for i, pair in enumerate(items(value["salts"], "independence.salts", size)):
            where = f"independence.salts[{i}]"
            for b, own in enumerate(items(pair, where, 2)):
                salts[i, b] = read_salts(own, f"{where}[{b}]", graph)
    claimed = whole(value["determinant"], "independence.determinant", 1, prime - 1)
    return Independence(points, salts, claimed)


def independence_work(point: Point, claimed: Independence) -> float:
    """The seconds that it will be charged."""
    size = len(claimed.points)
    drawn = 2 * size * point.graph.parameters * ARRAYS.function
    return drawn + 2 * point.passes(size) + determinant_work(size)


def check_independence(
    drawn: Point, field: Residues, claimed: Independence, progress: Progress
) -> None:
    """The determinant of differences of all arguments and inputs is as claimed, and not zero."""
    size, graph, most = len(claimed.points), drawn.graph, drawn.at_once()
    table = np.zeros((size, size), np.int64)
    for first in range(0, size, most):
        some = slice(first, first + most)
        numbers = np.array(claimed.points[some], np.uint64)
        meter().charge(2 * len(numbers) * graph.parameters * ARRAYS.function)
        weights = field.weights(graph, WITNESS_WEIGHTS, numbers * np.uint64(graph.parameters))
        point = Point(graph, field, weights)
        rows = []
        for b in (0, 1):
            salts = claimed.salts[some, b]
            these = numbers * np.uint64(2) + np.uint64(b)
            X = field.inputs(graph.input_shape, these, salts[:, 0], WITNESS_INPUTS)
            _, values = point.evaluate(Batch(X, salts))
            rows.append(np.hstack([*_arguments(graph, values), X.reshape(len(X), -1)]))
        table[some] = (rows[0] - rows[1]) % field.prime
        progress("witness points", first + len(numbers), size)
    found = determinant(table, field.prime)
    if found != claimed.determinant:
        raise RejectionError(
            f"independence.determinant: {claimed.determinant}, but it is {found} mod p"
        )


def _arguments(graph: Graph, values: list[Array]) -> list[Array]:
    """The arguments, row by row."""
    found = []
    for argument in graph.arguments:
        value = values[argument.node]
        if argument.seen is not None:
            value = value[..., argument.seen.table()]
        found.append(value.reshape(len(value), -1))
    return found


# Roots.


@dataclass(frozen=True)
class Root:
    """A radicand, and an input at which it is the first one without a root."""

    place: tuple[int, int, int]  # stage, root, entry
    number: int
    salts: Salts


def read_roots(value: Any, graph: Graph) -> list[Root]:
    """One for every radicand of the network, in any order."""
    sizes = {(stage, root): prod(graph.shape(node)) for node, stage, root in graph.roots}
    found = []
    for i, root in enumerate(items(value, "roots", sum(sizes.values()))):
        where = f"roots[{i}]"
        keys(root, ("stage", "root", "entry", "input", "salts"), where)
        place = tuple(whole(root[key], f"{where}.{key}", 0, MANY) for key in ("stage", "root"))
        if place not in sizes:
            raise RejectionError(f"{where}: stage {place[0]} has no root {place[1]}")
        entry = whole(root["entry"], f"{where}.entry", 0, sizes[place] - 1)
        number = whole(root["input"], f"{where}.input", 0, most_inputs(graph) - 1)
        salts = read_salts(root["salts"], f"{where}.salts", graph, short=True)
        found.append(Root((*place, entry), number, salts))
    distinct([root.place for root in found], "roots")
    return found


class _AllFoundError(Exception):
    """Everywhere in a batch a radicand without a root was found."""


class _Watching(Residues):
    """The field, but where a radicand has no root this is noted, and the work goes on."""

    def __init__(self, field: Residues, batch: int) -> None:
        super().__init__(field.prime, field.seed)
        self._asked = 0
        self.first = np.full(batch, -1)  # which root it was
        self.entry = np.zeros(batch, np.int64)
        self.zero = np.zeros(batch, bool)

    def root(self, a: Array, _salts: Salts) -> Array:
        """Roots; the first radicand without one is noted, for each element of the batch."""
        roots = self.power_of(a, (self.prime + 1) // 4)
        bad = (a == 0) | (self.mul(roots, roots) != a)
        flat = np.broadcast_to(bad, (len(self.first), *a.shape[1:])).reshape(len(self.first), -1)
        values = np.broadcast_to(a, (len(self.first), *a.shape[1:])).reshape(flat.shape)
        new = np.flatnonzero(flat.any(1) & (self.first < 0))
        self.first[new], self.entry[new] = self._asked, flat[new].argmax(1)
        self.zero[new] = values[new, self.entry[new]] == 0
        self._asked += 1
        if (self.first >= 0).all():
            raise _AllFoundError
        return np.where(bad, 1, roots)

    def inverse(self, a: Array) -> Array:
        """1 / x; where a radicand had no root, it may be anything."""
        if len(a) == len(self.first):
            over = (self.first >= 0).reshape(-1, *(1,) * (a.ndim - 1))
            a = np.where(over & (a == 0), 1, a)
        return super().inverse(a)


def check_roots(point: Point, field: Residues, roots: Sequence[Root], progress: Progress) -> None:
    """Every radicand is, at some input, the first one without a root, and not zero."""
    graph, places = point.graph, [place for _, *place in point.graph.roots]
    order = sorted(range(len(roots)), key=lambda i: roots[i].place)
    most = point.at_once()
    for first in range(0, len(order), most):
        some = order[first : first + most]
        salts = np.zeros((len(some), graph.stages + 1, graph.input_shape[1]), np.uint64)
        for row, i in zip(salts, some, strict=True):
            row[: len(roots[i].salts)] = roots[i].salts
        X = field.inputs(graph.input_shape, [roots[i].number for i in some], salts[:, 0])
        watching = _Watching(field, len(some))
        with suppress(_AllFoundError):
            Point(graph, watching, point.weights).evaluate(Batch(X, salts))
        for i, which, entry, zero in zip(
            some, watching.first, watching.entry, watching.zero, strict=True
        ):
            if which < 0:
                raise RejectionError(f"roots[{i}]: all radicands have roots at this input")
            if (*places[which], entry) != roots[i].place:
                stage, root = places[which]
                raise RejectionError(
                    f"roots[{i}]: the first radicand without a root is stage {stage}, root "
                    f"{root}, entry {entry}"
                )
            if zero:
                raise RejectionError(f"roots[{i}]: this radicand is zero mod p")
        progress("radicands", first + len(some), len(roots))
