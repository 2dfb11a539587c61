"""F_p as float64 arrays: exact arithmetic at the speed of BLAS.

A residue is kept balanced, |x| <= p/2 + 2, in a float64. A product of inner length k is
exact while k (p/2 + 2)^2 < 2^53, so for p just below 2^23 one may sum 511 products before
reducing. Zero is always stored as 0.0, so testing for zero needs no reduction.
"""

from __future__ import annotations

from math import prod

import numpy as np

from segre.errors import UnluckyError
from segre.fields.draw import Stream, words
from segre.fields.interface import Array

# The largest primes = 3 mod 4 below 2^23; the first is the default, the others for retries.
PRIMES = (8388587, 8388571, 8388547, 8388539)
_CHUNK = 1 << 15


class Prime:
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
        total = self.reduce(np.matmul(x[..., : self.inner], y[..., : self.inner, :]))
        for k in range(self.inner, x.shape[-1], self.inner):
            piece = np.matmul(x[..., k : k + self.inner], y[..., k : k + self.inner, :])
            total = self.reduce(np.add(total, self.reduce(piece), out=piece))
        return total

    def transpose(self, x: Array) -> Array:
        """Rows and columns exchanged."""
        return x.swapaxes(-1, -2)

    def sum(self, x: Array, axis: int) -> Array:
        """Sum along an axis of length below 2^30."""
        return self.reduce(x.sum(axis=axis, keepdims=True))

    def exp(self, x: Array) -> Array:
        """Random non-zero residues, the same for the same argument; 1 at 0."""
        argument = self.residues(x)
        drawn = words(self.seed, Stream.EXPONENTIALS, argument)
        value = np.uint64(1) + drawn % np.uint64(self.p - 1)
        value[argument == 0] = 1
        return self.reduce(value.astype(np.float64))

    def reciprocal(self, x: Array) -> Array:
        """Entrywise inverse, by Python's own; raises UnluckyError at zero."""
        if not x.all():
            raise UnluckyError("division by zero at this point; another seed gives another point")
        inverses = [pow(entry, -1, self.p) for entry in x.astype(np.int64).reshape(-1).tolist()]
        return self.constant(np.array(inverses, dtype=np.float64).reshape(x.shape))

    def anchor(self, x: Array) -> Array:
        """Nothing to do: residues do not overflow."""
        return x
