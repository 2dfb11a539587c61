"""How large is a minor of the Jacobian, and with which chance do random points all miss it?

docs/soundness.md, *The rank at random points*, has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, log2

import numpy as np

from segre.architectures import Architecture
from segre.fields.degrees import Degrees, Size, Sized
from segre.network import stages
from segre.result import BITS

PRIMES = 134_241  # primes p = 3 mod 4 with 2^22 < p < 2^23
SMALLEST = 22  # bits: all primes are larger
SPARE = 4  # points that may be drawn again
_MOST_POINTS = 64
_UNEVEN = 2.0**-40  # by how much the words of the generator favour a residue


@dataclass(frozen=True)
class Bounds:
    """The polynomial that is not zero if the rank is larger: its degree, height, and arguments."""

    degree: int
    height: float
    arguments: tuple[tuple[int, Size], ...]  # how many are compared with each other, and their size

    def error(self, points: int) -> float:
        """Base-2 logarithm of the chance that so many points, and a few in vain, all miss it."""
        missed = points * log2(_chance(self.degree, self.height))
        mixed = [
            log2(comb(count + 1, 2)) + points * log2(_chance(size.degree, size.height + 1))
            for count, size in self.arguments
        ]
        choices = log2(comb(points + SPARE, points))
        either = float(np.logaddexp2.reduce([missed, *mixed]))
        return choices + either

    @property
    def points(self) -> int | None:
        """How many points make the error small enough; None if not even many do."""
        able = (k for k in range(2, _MOST_POINTS + 1) if self.error(k) < -BITS)
        return next(able, None)


def _chance(degree: int, height: float) -> float:
    """The chance that a polynomial of this size vanishes at a random point mod a random prime."""
    vanishes = degree * (1 + _UNEVEN) / (1 << SMALLEST)
    return min(1.0, vanishes + height / SMALLEST / PRIMES)


def bounds(spec: Architecture, rank: int, inputs: int, *, words: bool = False) -> Bounds:
    """The size of a minor larger than `rank`; with `words`, inputs are token sequences.

    >>> from segre.models import architecture
    >>> found = bounds(architecture("lightning/d=4,4,4/a=2/t=3"), 40, 5)
    >>> found.degree, found.points
    (820, 7)
    """
    field, row = derivatives(spec, words=words)
    size = rank + 1
    arguments = tuple((inputs * count, own) for count, own in field.arguments)
    return Bounds(size * row.degree, size * (row.height + log2(size)), arguments)


def derivatives(spec: Architecture, *, words: bool = False) -> tuple[Degrees, Size]:
    """The size of the derivatives of outputs by weights, and the field with all divisors."""
    field = Degrees()
    tall = spec.width_in if spec.discrete else 1  # the last row is 1 minus the others
    value = Size() if words else Size(1, log2(tall))
    tokens = Sized((*[1] * spec.head_axes, spec.width_in, spec.t), value)
    for stage in stages(spec):
        own = {name: Sized(slot.shape, Size(1), Size()) for name, slot in stage.slots.items()}
        tokens = stage.apply(field, own, tokens)
    return field, tokens.slope or Size()
