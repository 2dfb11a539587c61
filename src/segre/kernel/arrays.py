"""What is the value of a graph over any numbers? Arrays with one more axis, the batch, in front.

`Numbers` is arithmetic on arrays: residues mod p, balls, floats. `Evaluation` is the interpreter:
a batch of inputs at one point, or of inputs at points of their own. An array whose batch has size
1 stands for the same entries everywhere in the batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segre.kernel.graph import Choice, Constant, Irrational, Node, Place, Seen, Shape
from segre.kernel.meter import Rates

Array = NDArray[Any]
Salts = NDArray[np.uint64]  # by element of the batch and token


class Numbers(ABC):
    """Arithmetic on arrays; functions of every entry get the salts of their stage.

    Those are `root`, `exp`, `phi` (the normal distribution function), `density` (its derivative),
    `step` (1 where relu lets an entry pass, else 0), and `affinities` (by which experts are
    chosen). `largest` says where so many largest entries along an axis are. `rotation` gives cos
    and sin of the angles of all planes at all positions, and `power` the powers of a decay rate,
    from exponent 0 on.
    """

    dtype: type
    rates: Rates
    bytes: int  # of an entry
    lowest: Any  # below all affinities

    @abstractmethod
    def matmul(self, A: Array, B: Array) -> Array:
        """Products of matrices: (n, r, s) and (n, s, t), or n = 1 in one of them."""

    @abstractmethod
    def number(self, value: Fraction | Irrational) -> Any:
        """A rational number, or one with a name."""

    @abstractmethod
    def inverse(self, a: Array) -> Array:
        """1 / x of every entry."""

    root: Callable[[Array, Salts], Array]
    exp: Callable[[Array, Salts], Array]
    phi: Callable[[Array, Salts], Array]
    density: Callable[[Array, Salts], Array]
    step: Callable[[Array, Salts], Array]
    affinities: Callable[[Array, Salts], Array]
    largest: Callable[[Array, int, int], NDArray[np.bool_]]
    rotation: Callable[[Any, int], tuple[Array, Array]]
    power: Callable[[Any, int], list[Any]]

    def reduce(self, a: Array) -> Array:
        """The same numbers, as they are kept."""
        return a

    def add(self, a: Array, b: Array) -> Array:
        """The sum, entry by entry."""
        return self.reduce(a + b)

    def mul(self, a: Array, b: Array) -> Array:
        """The product, entry by entry."""
        return self.reduce(a * b)

    def sum(self, a: Array, axes: tuple[int, ...]) -> Array:
        """The sum over axes, which stay with size 1."""
        return self.reduce(a.sum(axes, keepdims=True))

    def choose(self, a: Array, salts: Salts, choice: Choice) -> Array:
        """1 for the experts (axis 1) with the largest affinities, in the best groups; else 0."""
        a = self.affinities(a, salts)
        zero, one = (self.array([self.number(Fraction(n))], (1,)) for n in (0, 1))
        if choice.groups:
            batch, experts, *rest = a.shape
            parts = a.reshape(batch, choice.groups, experts // choice.groups, *rest)
            sums = np.where(self.largest(parts, 2, 2), parts, zero).sum(2)
            allowed = self.largest(sums, choice.within, 1)[:, :, None]
            a = np.where(allowed, parts, self.array([self.lowest], (1,))).reshape(a.shape)
        return np.where(self.largest(a, choice.active, 1), one, zero)

    def array(self, entries: Any, shape: Shape) -> Array:
        """The array with these entries, row-major."""
        return np.array(entries, dtype=self.dtype).reshape(shape)

    @cached_property
    def _known(self) -> dict[tuple[Constant, Shape], Array]:
        """The constants that were made."""
        return {}

    def constant(self, constant: Constant, shape: Shape) -> Array:
        """Numbers that no weight changes, with a batch of one."""
        if (constant, shape) not in self._known:
            self._known[constant, shape] = self._constant(constant, shape)
        return self._known[constant, shape]

    def _constant(self, constant: Constant, shape: Shape) -> Array:
        data, one = constant.data, self.array([self.number(Fraction(1))], (1,))
        if constant.kind == "rational":
            return np.broadcast_to(self.array([self.number(data)], (1,) * len(shape)), (1, *shape))
        if constant.kind == "seen":
            return np.asarray((data.table() * one)[None])
        if constant.kind == "ago":
            key, query = np.ogrid[: shape[1], : shape[2]]
            ago = np.arange(shape[0])[:, None, None]
            return np.asarray((((query - key == ago) & data.table()) * one)[None])
        if constant.kind == "powers":
            rates, seen = data
            return self._powers(rates, seen, shape)
        C, D = self._rotation(data, shape)
        return C if constant.kind == "cos" else D

    def _powers(self, rates: tuple[Any, ...], seen: Seen, shape: Shape) -> Array:
        """The powers of decay rates where keys are seen."""
        key, query = np.ogrid[: seen.keys, : seen.queries]
        ago = np.maximum(query - key, 0)
        each = [self.array(self.power(rate, seen.queries), (seen.queries,))[ago] for rate in rates]
        result: Array = (np.array(each) * seen.table()).reshape(1, *shape)
        return result

    def _rotation(self, spec: Any, shape: Shape) -> tuple[Array, Array]:
        from segre.kernel.functions import planes

        cos, sin = self.rotation(spec, shape[-1])
        C = np.broadcast_to(self.array([self.number(Fraction(1))], (1,)), shape).copy()
        D = C - C
        for i, (a, b) in enumerate(planes(spec.rotary_dim, spec.layout)):
            C[a], C[b] = cos[i], cos[i]
            D[a], D[b] = self.reduce(-sin[i]), sin[i]
        return C[None], D[None]

    def contract(self, subscripts: str, a: Array, b: Array) -> Array:
        """Einsum, as one product of matrices; the batch is one more letter, "*"."""
        sides, result = subscripts.split("->")
        first, second = sides.split(",")
        a, left = _without(a, "*" + first, second + result)
        b, right = _without(b, "*" + second, first + result)
        sizes = {**dict(zip(left, a.shape, strict=True)), **dict(zip(right, b.shape, strict=True))}
        result = "*" + result
        both = [x for x in left if x in right and x in result]
        summed = [x for x in left if x in right and x not in result]
        rows = [x for x in left if x not in right]
        columns = [x for x in right if x not in left]
        n, r, m, c = (prod(sizes[x] for x in some) for some in (both, rows, summed, columns))
        A = _ordered(a, left, [*both, *rows, *summed]).reshape(n, r, m)
        B = _ordered(b, right, [*both, *summed, *columns]).reshape(n, m, c)
        order = [*both, *rows, *columns]
        value = self.matmul(A, B).reshape([sizes[x] for x in order])
        value = _ordered(value, "".join(order), [x for x in result if x in order])
        return value.reshape([sizes.get(x, 1) for x in result])


def _without(a: Array, letters: str, needed: str) -> tuple[Array, str]:
    """An operand without a batch of one, and without axes of size 1 that nothing else has."""
    gone = {i for i, x in enumerate(letters) if x not in needed and (i or a.shape[0] == 1)}
    kept = "".join(x for i, x in enumerate(letters) if i not in gone)
    return a.squeeze(tuple(gone)), kept


def _ordered(a: Array, letters: str, order: list[str]) -> Array:
    return a.transpose([letters.index(x) for x in order])


def aligned(a: Array, rank: int) -> Array:
    """With new axes after the batch, so that there are `rank` others."""
    return a.reshape(a.shape[0], *(1,) * (rank + 1 - a.ndim), *a.shape[1:])


def one_hot(*drawn: Array, blocks: Sequence[int]) -> Array:
    """Columns for drawn numbers: one 1 in every block of rows, where its number mod its size is."""
    hot = [
        np.arange(size)[:, None] == (u % u.dtype.type(size)).astype(np.int64)[:, None]
        for u, size in zip(drawn, blocks, strict=False)
    ]
    return np.concatenate(hot, 1).astype(np.int64)


class Evaluation:
    """An interpreter of graphs; `salts` are by element of the batch, source and token."""

    def __init__(
        self,
        numbers: Numbers,
        weights: Mapping[Place, Array],
        inputs: Array,
        salts: NDArray[np.uint64] | None = None,
    ) -> None:
        self.numbers, self.weights, self.inputs = numbers, weights, inputs
        self._salts = salts

    def salts(self, node: Node) -> Salts:
        """The salts of the tokens of a node."""
        tokens = node.shape[-1]
        if self._salts is None:
            return np.zeros((1, tokens), np.uint64)
        return np.asarray(self._salts[:, node.stage + 1, :tokens])

    def input(self, _node: Node) -> Array:
        """The inputs."""
        return self.inputs

    def weight(self, node: Node) -> Array:
        """A tensor."""
        return self.weights[node.data.place]

    def constant(self, node: Node) -> Array:
        """Numbers that no weight changes."""
        return self.numbers.constant(node.data, node.shape)

    def contract(self, node: Node, a: Array, b: Array) -> Array:
        """Einsum."""
        return self.numbers.contract(node.data, a, b)

    def total(self, node: Node, a: Array) -> Array:
        """The sum over axes."""
        return self.numbers.sum(a, node.data)

    def add(self, node: Node, a: Array, b: Array) -> Array:
        """The sum."""
        rank = len(node.shape)
        return self.numbers.add(aligned(a, rank), aligned(b, rank))

    def mul(self, node: Node, a: Array, b: Array) -> Array:
        """The product."""
        rank = len(node.shape)
        return self.numbers.mul(aligned(a, rank), aligned(b, rank))

    def scale(self, node: Node, a: Array) -> Array:
        """Times a number."""
        return self.numbers.mul(a, self.numbers.number(node.data))

    def inverse(self, _node: Node, a: Array) -> Array:
        """1 / x."""
        return self.numbers.inverse(a)

    def _function(self, node: Node, a: Array) -> Array:
        """A function of every entry, with the salts of its stage."""
        value: Array = getattr(self.numbers, node.op)(a, self.salts(node))
        return value

    root = exp = phi = step = _function

    def density(self, node: Node, a: Array) -> Array:
        """The derivative of phi at a node."""
        return self.numbers.density(a, self.salts(node))

    def choose(self, node: Node, a: Array) -> Array:
        """1 for chosen experts."""
        return self.numbers.choose(a, self.salts(node), node.data)

    def take(self, node: Node, a: Array) -> Array:
        """Some places along an axis."""
        axis, places = node.data
        taken: Array = np.take(a, places, axis)
        return taken

    def join(self, node: Node, *args: Array) -> Array:
        """Arrays one after the other; those with a batch of one are repeated if others are not."""
        batch = max(a.shape[0] for a in args)
        wide = [np.broadcast_to(a, (batch, *a.shape[1:])) for a in args]
        return np.concatenate(wide, node.data)
