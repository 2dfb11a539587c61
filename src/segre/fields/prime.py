"""F_p as float64 arrays: exact arithmetic at the speed of BLAS.

A residue is kept balanced, |x| <= p/2 + 2, in a float64. A product of inner length k is
exact while k (p/2 + 2)^2 < 2^53, so for p just below 2^23 one may sum 511 products before
reducing. Zero is always stored as 0.0, so testing for zero needs no reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod

import numpy as np

from segre.errors import UnluckyError
from segre.fields.circle import Frequencies
from segre.fields.composite import Composite
from segre.fields.draw import Stream, words
from segre.fields.interface import Array
from segre.fields.operators import largest_entries
from segre.slope import Slope

# The largest primes = 3 mod 4 below 2^23; the first is the default, the others for retries.
PRIMES = (8388587, 8388571, 8388547, 8388539)
_CHUNK = 1 << 15
_FINEST = 2**16 * 10**5  # part of an exponent that decay rates are powers of
_FEW = 32  # entries that are inverted one by one in less time than all together


class Prime(Composite[Array]):
    """The field of p elements, with `exp` drawn as a random function of its argument.

    `exp(z)` is a non-zero residue that depends on z and the seed alone, with exp(0) = 1:
    a generic value for an exponential that is algebraically independent of everything else
    (docs/soundness.md says when that is so).

    >>> F = Prime()
    >>> x = F.constant(np.array([[2, 3], [5, 7]]))
    >>> F.residues(F.mul(x, F.reciprocal(x))).tolist()
    [[1, 1], [1, 1]]
    """

    def __init__(self, p: int = PRIMES[0], seed: int = 0) -> None:
        self.p = p
        self.seed = seed
        self.inner = int((2**53 - 1) // (p // 2 + 2) ** 2)
        if self.inner < 2:
            raise ValueError(f"the prime {p} is too large for float64 products")
        self._p = float(p)
        self._inverse = 1.0 / p

    def __repr__(self) -> str:
        return f"Prime(p={self.p}, seed={self.seed})"

    def reduce(self, x: Array) -> Array:
        """Balance integers below 2^53 in place, chunk by chunk so that they stay in cache."""
        if x.size > _CHUNK and x.flags.c_contiguous:
            flat = x.reshape(-1)
            quotient = np.empty(_CHUNK)
            for start in range(0, flat.size, _CHUNK):
                piece = flat[start : start + _CHUNK]
                self.reduce_with(piece, quotient[: piece.size])
        else:
            self.reduce_with(x, np.empty(x.shape))
        return x

    def reduce_with(self, x: Array, quotient: Array) -> None:
        """x - p rint(x / p) in place, with scratch space for the quotient."""
        np.multiply(x, self._inverse, out=quotient)
        np.rint(quotient, out=quotient)
        np.multiply(quotient, self._p, out=quotient)
        np.subtract(x, quotient, out=x)

    def constant(self, x: Array) -> Array:
        """Integers below 2^53 in absolute value, as balanced residues."""
        return self.reduce(np.array(x, dtype=np.float64))

    def residues(self, x: Array) -> Array:
        """The representatives in 0..p-1, as int64: equal residues, equal integers."""
        y = x.astype(np.int64)
        y += self.p * (y < 0)
        return y

    def draw(self, stream: Stream, start: int | Array, shape: tuple[int, ...]) -> Array:
        """Elements u(seed, stream, start + i) mod p, in row-major order; one block per start."""
        within = np.arange(prod(shape), dtype=np.uint64)
        index = np.asarray(start, dtype=np.uint64)[..., None] + within
        residues = words(self.seed, stream, index) % np.uint64(self.p)
        return self.reduce(residues.astype(np.float64)).reshape(*index.shape[:-1], *shape)

    def add(self, x: Array, y: Array) -> Array:
        """Entrywise sum."""
        return self.reduce(x + y)

    def sub(self, x: Array, y: Array) -> Array:
        """Entrywise difference."""
        return self.reduce(x - y)

    def mul(self, x: Array, y: Array) -> Array:
        """Entrywise product."""
        return self.reduce(x * y)

    def matmul(self, x: Array, y: Array) -> Array:
        """Matrix product, the inner dimension cut into exact pieces."""
        if x.shape[-1] <= self.inner:
            return self.reduce(np.matmul(x, y))
        total = self.reduce(np.matmul(x[..., : self.inner], y[..., : self.inner, :]))
        for k in range(self.inner, x.shape[-1], self.inner):
            piece = np.matmul(x[..., k : k + self.inner], y[..., k : k + self.inner, :])
            total = self.reduce(np.add(total, self.reduce(piece), out=piece))
        return total

    def loose_mul(self, x: Array, y: Array) -> Array:
        """Entrywise product, not reduced."""
        return np.asarray(x * y)

    def loose_matmul(self, x: Array, y: Array) -> Array:
        """Matrix product, not reduced if the sum of two of them is still exact."""
        return np.matmul(x, y) if 2 * x.shape[-1] <= self.inner else self.matmul(x, y)

    def tight(self, x: Array) -> Array:
        """Reduced, in place."""
        return self.reduce(x)

    def identity(self, rows: int, columns: int, first: int) -> Array:
        """Ones at (i, first + i), zeros elsewhere."""
        return np.eye(rows, columns, first)

    def transpose(self, x: Array) -> Array:
        """Rows and columns exchanged."""
        return x.swapaxes(-1, -2)

    def sum(self, x: Array, axis: int) -> Array:
        """Sum along an axis of length below 2^30."""
        return self.reduce(x.sum(axis=axis, keepdims=True))

    def fraction(self, value: Fraction) -> Array:
        """A rational number whose denominator p does not divide."""
        residue = value.numerator * pow(value.denominator, -1, self.p) % self.p
        return self.constant(np.array([[residue]]))

    def surd(self, n: int, over_pi: bool = False) -> Array:
        """A random residue: right for a transcendental number, as the root of n / pi is."""
        index = np.array([[2 * n + over_pi]], dtype=np.uint64)
        value = words(self.seed, Stream.CONSTANTS, index) % np.uint64(self.p)
        return self.reduce(value.astype(np.float64))

    def slope(self, rate: Slope) -> Array:
        """A power of a random residue: right for the powers of a transcendental number."""
        root, power = rate.power(_FINEST)
        if power.denominator != 1:
            raise UnluckyError(f"the rate {rate} is too fine for a proof mod p; try --method balls")
        index = np.array([(root.denominator << 20) + root.numerator], dtype=np.uint64)
        base = 1 + int(words(self.seed, Stream.SLOPES, index)[0]) % (self.p - 1)
        return self.constant(np.array([[pow(base, power.numerator, self.p)]]))

    def drawn(self, stream: Stream, argument: Array) -> Array:
        """Random words, the same for the same arguments (residues 0..p-1)."""
        return words(self.seed, stream, argument)

    def exp(self, x: Array, used: Array | None = None) -> Array:  # noqa: ARG002
        """Random non-zero residues, the same for the same argument; 1 at 0."""
        argument = self.residues(x)
        value = self.nonzero(self.drawn(Stream.EXPONENTIALS, argument))
        value[argument == 0] = 1
        return value

    def sigmoid(self, x: Array) -> Array:
        """1 / (1 + exp(-x))."""
        return self.reciprocal(self.add(np.ones(1), self.exp(-x)))

    def cdf(self, x: Array) -> Array:
        """Random residues, the same for the same argument."""
        value = self.drawn(Stream.DISTRIBUTION, self.residues(x)) % np.uint64(self.p)
        return self.reduce(value.astype(np.float64))

    def pdf(self, x: Array) -> Array:
        """Random non-zero residues, the same for the same argument: the derivative of `cdf`."""
        return self.nonzero(self.drawn(Stream.DENSITY, self.residues(x)))

    def sqrt(self, x: Array) -> Array:
        """The root that is itself a square (p = 3 mod 4); raises UnluckyError if there is none."""
        root, found = self.roots(x)
        if not found.all():
            raise UnluckyError("a number has no square root at this point; try another seed")
        return root

    def roots(self, x: Array) -> tuple[Array, Array]:
        """x^((p+1)/4), and where it is a root of a number that is not zero."""
        root, power, exponent = np.ones_like(x), x, (self.p + 1) // 4
        while exponent:
            if exponent & 1:
                root = self.mul(root, power)
            exponent >>= 1
            power = self.mul(power, power)
        return root, (self.sub(self.mul(root, root), x) == 0) & (x != 0)

    def step(self, x: Array) -> Array:
        """Random zeros and ones, the same for the same argument: a region, real or not."""
        bits = self.drawn(Stream.REGIONS, self.residues(x)) % np.uint64(2)
        return bits.astype(np.float64)

    def relu(self, x: Array) -> Array:
        """x or 0, by the region."""
        return np.asarray(x * self.step(x))

    def largest(self, x: Array, count: int, groups: int = 0, within: int = 0) -> Array:
        """Ones at random entries along axis -3, by the region."""
        drawn = self.drawn(Stream.REGIONS, self.residues(x)) >> np.uint64(12)
        chosen = largest_entries(drawn.astype(np.float64), count, groups, within)
        return chosen.astype(np.float64)

    def absorbed(self, *_: Fraction) -> Array:
        """1: weights are other coordinates here, in which the factor is absorbed."""
        return np.ones((1, 1))

    def turns(self, speed: Frequencies, count: int) -> tuple[Array, Array]:
        """Powers of random points of the circle: one for each class of commensurable angles."""
        index = np.array([number for number, _ in speed.multiples()], dtype=np.uint64)
        points = words(self.seed, Stream.CIRCLE, index) % np.uint64(self.p)
        multiples = (multiple for _, multiple in speed.multiples())
        return self.on_circle([*zip(map(int, points), multiples, strict=True)], count)

    def on_circle(self, points: Sequence[tuple[int, int]], count: int) -> tuple[Array, Array]:
        """cos and sin of m times an angle, m < count, for several angles.

        An angle is a multiple of that of the point ((1 - s^2) / (1 + s^2), 2 s / (1 + s^2)).
        """
        cos, sin = np.empty((2, len(points), count))
        for j, (s, multiple) in enumerate(points):
            scale = pow(1 + s * s, -1, self.p)
            step = self._power(((1 - s * s) * scale % self.p, 2 * s * scale % self.p), multiple)
            at = (1, 0)
            for m in range(count):
                cos[j, m], sin[j, m] = at
                at = self._times(at, step)
        return self.constant(cos), self.constant(sin)

    def nonzero(self, drawn: Array) -> Array:
        """Random words as nonzero residues."""
        return self.reduce((drawn % np.uint64(self.p - 1)).astype(np.float64) + 1)

    def _times(self, x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
        return (x[0] * y[0] - x[1] * y[1]) % self.p, (x[0] * y[1] + x[1] * y[0]) % self.p

    def _power(self, x: tuple[int, int], exponent: int) -> tuple[int, int]:
        out = (1, 0)
        while exponent:
            out = self._times(out, x) if exponent & 1 else out
            exponent, x = exponent >> 1, self._times(x, x)
        return out

    def reciprocal(self, x: Array) -> Array:
        """Entrywise inverse; raises UnluckyError at zero.

        Of many entries: the inverses of a few products, and trees of products back to each of them.
        """
        if not x.all():
            raise UnluckyError("division by zero at this point; try another seed")
        levels = [x.reshape(-1)]
        while len(levels[-1]) > _FEW:
            below = levels[-1]
            if len(below) % 2:
                below = levels[-1] = np.append(below, 1.0)
            levels.append(self.mul(below[0::2], below[1::2]))
        top = [pow(int(entry), -1, self.p) for entry in levels.pop().tolist()]
        inverse = self.constant(np.array(top))
        for level in reversed(levels):
            swapped = level.reshape(-1, 2)[:, ::-1]
            inverse = self.mul(swapped, inverse[: len(swapped), None]).reshape(-1)
        return inverse[: x.size].reshape(x.shape)
