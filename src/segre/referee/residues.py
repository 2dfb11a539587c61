"""Which residues does a seed stand for? The random elements of section 3 of the document.

>>> stream = Stream.of(seed=0, number=0)
>>> stream(0), stream(1)
(12035550249420947055, 12935080325729570654)
"""

from __future__ import annotations

from dataclasses import dataclass

from flint import nmod_mat

from segre.referee.meter import RESIDUES, charge

WORD = 1 << 64
_MASK = WORD - 1
_GOLDEN = 0x9E3779B97F4A7C15

WEIGHTS, INPUTS, EXPONENTIALS, WITNESS_WEIGHTS, WITNESS_INPUTS = range(5)


def mix(z: int) -> int:
    """Scramble 64 bits by a bijection (the finaliser of splitmix64)."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


@dataclass(frozen=True, slots=True)
class Stream:
    """The numbers u(seed, stream, i), i = 0, 1, ..."""

    start: int

    @classmethod
    def of(cls, seed: int, number: int) -> Stream:
        """Stream `number` of a seed."""
        return cls(mix((seed + (number + 1) * _GOLDEN) & _MASK))

    def __call__(self, i: int) -> int:
        """Number i of the stream."""
        return mix((self.start + (i + 1) * _GOLDEN) & _MASK)


@dataclass(frozen=True, slots=True)
class Draw:
    """All random elements of F_p that belong to one seed."""

    prime: int
    seed: int

    def residues(self, stream: int, first: int, count: int) -> list[int]:
        """Elements first, ..., first + count - 1 of a stream, mod p."""
        charge(count * RESIDUES.function)
        u = Stream.of(self.seed, stream)
        return [u(i) % self.prime for i in range(first, first + count)]

    def matrix(self, stream: int, number: int, rows: int, columns: int) -> nmod_mat:
        """Matrix `number` of a stream that is cut into matrices of this size, row-major."""
        size = rows * columns
        entries = self.residues(stream, number * size, size)
        return nmod_mat(rows, columns, entries, self.prime)

    def exponentials(self) -> Exponential:
        """The stand-in for exp on F_p."""
        return Exponential(self.prime, Stream.of(self.seed, EXPONENTIALS))


@dataclass(frozen=True, slots=True)
class Exponential:
    """A random function F_p -> F_p without zeros, with exp(0) = 1."""

    prime: int
    stream: Stream

    def __call__(self, z: int) -> int:
        """The value at z, for z in 0..p-1."""
        return 1 if z == 0 else 1 + self.stream(z) % (self.prime - 1)
