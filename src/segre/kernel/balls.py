"""What is a network in real arithmetic? Its functions on balls that enclose the true values.

Section 5. Arrays hold balls of python-flint. What these are too wide to tell raises
`UncertainError`, and more bits may help.

>>> Balls().inverse(np.array([arb(4)], dtype=object))[0] == arb(1) / 4
True
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx, fmpq
from numpy.typing import NDArray

from segre.kernel.arrays import Array, Numbers, Salts, one_hot
from segre.kernel.constants import amplitude, angle
from segre.kernel.graph import Graph, Irrational, Place, Rate, Shape
from segre.kernel.meter import balls
from segre.kernel.residues import INPUTS, WEIGHTS, Stream, cut
from segre.transformer.spec import Transformer

TYPES = 1 << 41  # where the numbers of token types begin in the stream of inputs


class UncertainError(Exception):
    """Balls are too wide at this precision to tell what is asked."""


class Balls(Numbers):
    """Real numbers, each known to lie in a ball; the precision is that of flint's context."""

    dtype = object
    lowest = arb("-inf")

    def __init__(self) -> None:
        self.rates, self.bytes = balls(ctx.prec), 100 + ctx.prec // 4

    def matmul(self, A: Array, B: Array) -> Array:
        """Products of matrices, by flint."""
        left, right = _matrices(A), _matrices(B)
        count = max(len(left), len(right))
        left, right = (some * count if len(some) == 1 else some for some in (left, right))
        entries = [x for L, R in zip(left, right, strict=True) for x in (L * R).entries()]
        return self.array(entries, (count, A.shape[1], B.shape[2]))

    def number(self, value: Fraction | Irrational) -> arb:
        """A rational number, or one with a name."""
        if not isinstance(value, tuple):
            return _ball(Fraction(value))
        name, *given = value
        if name == "sqrt(2/pi)":
            return (2 / arb.pi()).sqrt()
        if name == "grown":
            up, down, of = given
            log = _ball(of).log()
            return (1 + _ball(up) * log) / (1 + _ball(down) * log)
        return _ball(Fraction(given[0])).sqrt()

    def inverse(self, a: Array) -> Array:
        """1 / x; no entry may be zero."""
        return _each(a, lambda x: 1 / _apart(x))

    def root(self, a: Array, _salts: Salts) -> Array:
        """The square root; all entries must be positive."""
        return _each(a, lambda x: _positive(x).sqrt())

    def exp(self, a: Array, _salts: Salts) -> Array:
        """exp."""
        return _each(a, arb.exp)

    def phi(self, a: Array, _salts: Salts) -> Array:
        """The normal distribution function."""
        scale = 1 / arb(2).sqrt()
        return _each(a, lambda x: (1 + (x * scale).erf()) / 2)

    def density(self, a: Array, _salts: Salts) -> Array:
        """Its derivative."""
        spread = 1 / (2 * arb.pi()).sqrt()
        return _each(a, lambda x: (-x * x / 2).exp() * spread)

    def step(self, a: Array, _salts: Salts) -> Array:
        """1 for positive entries, 0 for negative ones; there may be no others."""
        return _each(a, lambda x: arb(int(_apart(x) > 0)))

    def affinities(self, a: Array, _salts: Salts) -> Array:
        """The numbers themselves."""
        return a

    def largest(self, a: Array, count: int, axis: int) -> NDArray[np.bool_]:
        """Where the largest entries are, certainly larger than all others."""
        moved = np.moveaxis(a, axis, -1)
        found = np.zeros(moved.shape, bool)
        for place in np.ndindex(moved.shape[:-1]):
            values: list[arb] = moved[place].tolist()
            order = sorted(range(len(values)), key=lambda i: -float(values[i].mid()))
            if not all(values[i] > values[j] for i in order[:count] for j in order[count:]):
                raise UncertainError("which experts a token chooses is not certain")
            found[place][order[:count]] = True
        return np.moveaxis(found, -1, axis)

    def rotation(self, spec: Transformer, positions: int) -> tuple[Array, Array]:
        """cos and sin, with the factor of rescaled queries and keys."""
        planes, factor = range(spec.rotary_dim // 2), amplitude(spec)
        angles = [position * angle(spec, i) for i in planes for position in range(positions)]
        shape = len(planes), positions
        cos, sin = ([of(x) * factor for x in angles] for of in (arb.cos, arb.sin))
        return self.array(cos, shape), self.array(sin, shape)

    def power(self, rate: Fraction | Rate, exponents: int) -> list[arb]:
        """The powers of a decay rate."""
        if isinstance(rate, Rate):
            base = (-_ball(rate.factor) * arb(2) ** -_ball(rate.exponent)).exp()
        else:
            base = _ball(rate)
        return [base**exponent for exponent in range(exponents)]


def _ball(value: Fraction) -> arb:
    return arb(fmpq(value.numerator, value.denominator))


def _each(a: Array, function: Callable[[arb], arb]) -> Array:
    return _objects([function(x) for x in a.ravel()], a.shape)


def _objects(entries: list[arb], shape: Shape) -> Array:
    result = np.empty(len(entries), object)
    result[:] = entries
    return result.reshape(shape)


def _matrices(A: Array) -> list[arb_mat]:
    _, rows, columns = A.shape
    return [arb_mat(rows, columns, one.ravel().tolist()) for one in A]


def _apart(a: arb) -> arb:
    """A number that is certainly not zero."""
    if not (a > 0 or a < 0):
        raise UncertainError("a number may be zero that must not be, or its sign is not certain")
    return a


def _positive(a: arb) -> arb:
    if not a > 0:
        raise UncertainError("a number under a square root is not certainly positive")
    return a


def real_weights(graph: Graph, seed: int) -> dict[Place, Array]:
    """The weights of the real point: gains around 1, all others around 0."""
    places = np.arange(graph.parameters, dtype=np.uint64)
    values = _dyadic(Stream(seed, WEIGHTS)(places))
    for tensor in graph.tensors.values():
        if tensor.name.endswith(".gain"):
            own = slice(tensor.offset, tensor.offset + tensor.size)
            values[own] = 1 + values[own] / 2
    return cut(graph, values[None])


def real_inputs(graph: Graph, seed: int, numbers: Any) -> Array:
    """Inputs of the real point; one-hot columns if there is a vocabulary."""
    u, (rows, t) = Stream(seed, INPUTS), graph.input_shape
    first = np.asarray(numbers, np.uint64)[:, None]
    if not graph.blocks:
        places = first * np.uint64(rows * t) + np.arange(rows * t, dtype=np.uint64)
        return _dyadic(u(places)).reshape(-1, rows, t)
    places = first * np.uint64(t) + np.arange(t, dtype=np.uint64)
    hot = one_hot(u(places), u(places + np.uint64(TYPES)), blocks=graph.blocks)
    return _objects([arb(int(x)) for x in hot.ravel()], hot.shape)


def _dyadic(u: Array) -> Array:
    """Numbers from -1 to 1 with 20 bits after the point."""
    parts = (u >> np.uint64(43)).astype(np.int64) - (1 << 20)
    return _objects([arb((part, -20)) for part in parts.ravel().tolist()], parts.shape)
