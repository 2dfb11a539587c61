"""What is a network mod p? Residues in arrays, with the drawn functions of section 4.

>>> u = Stream(seed=0, number=0)
>>> [int(x) for x in u(np.arange(2))]
[12035550249420947055, 12935080325729570654]
>>> field = Residues(103, 0)
>>> field.matmul(np.array([[[3, 5]]]), np.array([[[100], [102]]])).tolist()
[[[89]]]
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segre.kernel.arrays import Array, Numbers, Salts
from segre.kernel.constants import multiples
from segre.kernel.document import RejectionError
from segre.kernel.graph import Graph, Irrational, Place, Rate, Shape
from segre.kernel.meter import ARRAYS
from segre.transformer.spec import Transformer

WEIGHTS, INPUTS, EXPONENTIALS, WITNESS_WEIGHTS, WITNESS_INPUTS = range(5)
NORMALS, DENSITIES, CIRCLES, CONSTANTS, STEPS, ROOTS, SLOPES = range(6, 13)
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_WORD = 1 << 64
_INPUT_SALT, _VALUE_SALT = np.uint64(40), np.uint64(32)
_SLOPE_UNIT = (1 << 16) * 10**5
_HALF = 16  # bits of the parts of a residue in products of floats
_EXACT = 1 << (53 - 31 - _HALF)  # so many products of a residue and a part have an exact sum
_SMALL = 4096  # entries for which one operation is faster than three fast ones
_FEW = 8  # terms of a sum that whole numbers do faster


class Stream:
    """The numbers u(seed, number, i), for arrays of i."""

    def __init__(self, seed: int, number: int) -> None:
        start = np.array([(seed + (number + 1) * _GOLDEN) % _WORD], np.uint64)
        self._start = _mix(start)[0]

    def __call__(self, i: Array) -> Array:
        """Numbers i of the stream."""
        return _mix(self._start + (i.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN))


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64 bits by a bijection (the finaliser of splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND)
    z ^= z >> np.uint64(31)
    return z


class NoRootError(RejectionError):
    """A radicand that is zero or has no square root mod p."""


class Residues(Numbers):
    """F_p in whole numbers 0..p-1, p < 2^31, with the functions of one seed."""

    dtype = np.int64
    rates = ARRAYS
    bytes = 8
    lowest = -1

    def __init__(self, prime: int, seed: int) -> None:
        self.prime, self.seed = prime, seed
        self._p, self._top = np.uint64(prime), np.uint64(prime - 1)
        self.streams = [Stream(seed, number) for number in range(13)]

    # Points.

    def weights(self, graph: Graph, stream: int = WEIGHTS, first: Any = 0) -> dict[Place, Array]:
        """All tensors, from number `first` of a stream on; of several points, if it is an array."""
        numbers = np.atleast_1d(np.asarray(first, np.uint64))[:, None]
        entries = self.drawn(stream, numbers + np.arange(graph.parameters, dtype=np.uint64))
        return cut(graph, entries)

    def drawn(self, stream: int, indices: Array) -> Array:
        """Elements of a stream mod p."""
        return (self.streams[stream](indices) % self._p).astype(np.int64)

    def inputs(self, shape: Shape, numbers: Any, salts: Salts, stream: int = INPUTS) -> Array:
        """Inputs of these numbers, with the salts of their tokens."""
        size = shape[0] * shape[1]
        first = np.asarray(numbers, np.uint64)[:, None, None] * np.uint64(size)
        places = np.arange(size, dtype=np.uint64).reshape(shape)
        return self.drawn(stream, first + places + (salts[:, None, :] << _INPUT_SALT))

    def soft(self, inputs: Array, *blocks: int) -> Array:
        """Inputs whose rows are cut into blocks; in a column, every block sums to 1."""
        result, first = inputs.copy(), 0
        for size in blocks:
            last = first + size - 1
            if size:
                result[:, last] = (1 - result[:, first:last].sum(1)) % self.prime
            first += size
        return result

    # Arithmetic.

    def reduce(self, a: Array) -> Array:
        """Whole numbers below 2^63 mod p."""
        reduced: Array = a % self.prime if a.size < _SMALL else a - a // self.prime * self.prime
        return reduced

    def matmul(self, A: Array, B: Array) -> Array:
        """Products of matrices: exact sums of a few products, or of many in floats."""
        inner, p = A.shape[-1], self.prime
        result = np.zeros(1, np.int64)
        if inner <= _FEW:
            for first in range(0, inner, 4):  # four products of residues are below 2^64
                some = slice(first, first + 4)
                part = A[..., some].astype(np.uint64) @ B[..., some, :].astype(np.uint64)
                result = result + (part % self._p).astype(np.int64)
            return self.reduce(result)
        high, low = (B >> _HALF).astype(float), (B & ((1 << _HALF) - 1)).astype(float)
        left = A.astype(float)
        for first in range(0, inner, _EXACT):
            some = slice(first, first + _EXACT)
            top = self.reduce((left[..., some] @ high[..., some, :]).astype(np.int64))
            part = (left[..., some] @ low[..., some, :]).astype(np.int64)
            result = result + self.reduce((top << _HALF) + part)
        return result % p if inner > _EXACT else result

    def power_of(self, a: Array, exponent: int) -> Array:
        """Every entry to the power of a whole number."""
        result = np.ones_like(a)
        for bit in bin(exponent)[2:]:
            result = self.mul(result, result)
            result = self.mul(result, a) if bit == "1" else result
        return result

    def number(self, value: Fraction | Irrational) -> int:
        """The residue of a rational number; others are drawn, or 1 where weights absorb them."""
        if isinstance(value, tuple):
            if value[0] in ("root", "grown"):
                return 1
            index = 5 if value[0] == "sqrt(2/pi)" else 2 * int(value[1])
            return int(self.drawn(CONSTANTS, np.array([index]))[0])
        value = Fraction(value)
        if value.denominator % self.prime == 0:
            raise RejectionError(f"the point is unusable: {value} has no residue mod p")
        return value.numerator * pow(value.denominator, -1, self.prime) % self.prime

    # Functions.

    def inverse(self, a: Array) -> Array:
        """1 / x, as x^(p - 2)."""
        if not a.all():
            raise RejectionError("the point is unusable: a division by zero mod p")
        return self.power_of(a, self.prime - 2)

    def root(self, a: Array, _salts: Salts) -> Array:
        """x^((p+1)/4); all entries must be squares, and not zero."""
        roots = self.power_of(a, (self.prime + 1) // 4)
        if not (a.all() and (self.mul(roots, roots) == a).all()):
            raise NoRootError(
                "the point is unusable: a radicand has no square root mod p, or is zero"
            )
        return roots

    def _functions(self, a: Array, salts: Salts, stream: int) -> Array:
        high = (salts << _VALUE_SALT).reshape(salts.shape[0], *(1,) * (a.ndim - 2), -1)
        return self.streams[stream](a.astype(np.uint64) + high)

    def _without_zero(self, a: Array, salts: Salts, stream: int) -> Array:
        return (self._functions(a, salts, stream) % self._top).astype(np.int64) + 1

    def exp(self, a: Array, salts: Salts) -> Array:
        """A random function without zeros, with exp(0) = 1."""
        return np.where(a == 0, 1, self._without_zero(a, salts, EXPONENTIALS))

    def phi(self, a: Array, salts: Salts) -> Array:
        """A random function."""
        return (self._functions(a, salts, NORMALS) % self._p).astype(np.int64)

    def density(self, a: Array, salts: Salts) -> Array:
        """A random function without zeros."""
        return self._without_zero(a, salts, DENSITIES)

    def step(self, a: Array, salts: Salts) -> Array:
        """A random function with values 0 and 1."""
        return (self._functions(a, salts, STEPS) % np.uint64(2)).astype(np.int64)

    def affinities(self, a: Array, salts: Salts) -> Array:
        """Drawn numbers: experts with the largest are chosen, the first ones among equals."""
        return (self._functions(a, salts, STEPS) >> np.uint64(12)).astype(np.int64)

    def largest(self, a: Array, count: int, axis: int) -> NDArray[np.bool_]:
        """Where the largest entries are, the first ones among equals."""
        order = np.argsort(-a, axis=axis, kind="stable")
        chosen: NDArray[np.bool_] = np.argsort(order, axis=axis, kind="stable") < count
        return chosen

    # Constants.

    def circles(self, spec: Transformer) -> list[tuple[int, int]]:
        """For every plane a point of the circle, by a number s, and the power that is its angle."""
        return [
            (int(self.drawn(CIRCLES, np.array([number]))[0]), power)
            for number, power in multiples(spec)
        ]

    def rotation(self, spec: Transformer, positions: int) -> tuple[Array, Array]:
        """Powers of points ((1 - s^2) / (1 + s^2), 2 s / (1 + s^2)) of the circle."""
        p, turns = self.prime, []

        def times(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
            return (a[0] * b[0] - a[1] * b[1]) % p, (a[0] * b[1] + a[1] * b[0]) % p

        for s, power in self.circles(spec):
            if (1 + s * s) % p == 0:  # never, where -1 is not a square
                raise RejectionError("the point is unusable: a rotation has no value")
            scale = pow(1 + s * s, -1, p)
            square, angle = ((1 - s * s) * scale % p, 2 * s * scale % p), (1, 0)
            while power:
                angle = times(angle, square) if power & 1 else angle
                square, power = times(square, square), power >> 1
            points = [(1, 0)]
            while len(points) < positions:
                points.append(times(points[-1], angle))
            turns.append(points)
        table = np.array(turns, np.int64).reshape(len(turns), positions, 2)
        return table[..., 0], table[..., 1]

    def power(self, rate: Fraction | Rate, exponents: int) -> list[int]:
        """The powers of a decay rate."""
        base, powers = self.base(rate), [1]
        while len(powers) < exponents:
            powers.append(powers[-1] * base % self.prime)
        return powers

    def base(self, rate: Fraction | Rate) -> int:
        """A decay rate; slopes are powers of one residue for each fraction of an exponent."""
        if isinstance(rate, Fraction):
            return self.number(rate)
        whole = rate.exponent.numerator // rate.exponent.denominator
        rest = rate.exponent - whole
        unit = rate.fine * _SLOPE_UNIT
        index = (rest.denominator << 20) + rest.numerator
        # Before anything large is computed: a power that is whole is at least 1.
        bounded = -64 <= whole <= (rate.factor.numerator * unit).bit_length() and index < _WORD
        power = rate.factor * unit / Fraction(2) ** whole if bounded else Fraction(1, 2)
        if power.denominator != 1:
            raise RejectionError("spec: the slope of a decay is no power")
        base = 1 + int(self.streams[SLOPES](np.array([index], np.uint64))[0]) % (self.prime - 1)
        return pow(base, int(power), self.prime)


class FreeRoots(Residues):
    """The same with drawn roots: no true roots, but with the derivative of roots (section 7)."""

    def root(self, a: Array, salts: Salts) -> Array:
        """A random function without zeros."""
        return self._without_zero(a, salts, ROOTS)


def cut(graph: Graph, entries: Array) -> dict[Place, Array]:
    """Vectors of weights (rows), cut into tensors."""
    return {
        place: entries[:, tensor.offset : tensor.offset + tensor.size].reshape(-1, *tensor.shape)
        for place, tensor in graph.tensors.items()
    }
