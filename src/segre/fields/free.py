"""F_p with all that is not rational drawn freely: the most general values that a network can have.

Exponentials, distribution functions, square roots, decays and rotations are variables; a root need
not be one, but has the derivative of one. So the true Jacobian is a special value of this one, and
its rank is no larger (docs/soundness.md, *The rank at random points*).

The same argument must give the same variable, and different arguments different ones. Residues may
agree by accident, so every network is first evaluated mod a second prime (`Shadow`), and arguments
count as the same only if they agree mod both.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from hashlib import sha256

import numpy as np

from segre.errors import TooLargeError, UnluckyError
from segre.fields.circle import Frequencies
from segre.fields.draw import Stream
from segre.fields.formal import Formal
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.real import Real
from segre.slope import Slope

_SAME = 1e-9  # so close are floats that are equal but for rounding
_ARGUMENT, _CLASS, _DRAW = 23, 25, 6  # bits of a key: residue, class, draw within a stage


class Regions(Real):
    """Floats that note the region they are in: which units are on, which experts are chosen.

    They also note signs that norms give. A norm gives a sign where all that it divides, at given
    weights, lies on a line through zero: its root is the length of one vector.
    """

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Array] = []
        self._squared: Array = np.zeros(())
        self.signs = False  # whether a norm gives a sign that is not always the same

    def mul(self, x: Array, y: Array) -> Array:
        """The product; remembers what is squared."""
        self._squared = x if x is y else self._squared
        return super().mul(x, y)

    def sqrt(self, x: Array) -> Array:
        """The root of a sum of squares; the signs of the first of them, 0 where it gives none."""
        root = super().sqrt(x)
        out = self._squared / root
        same = np.ptp(np.abs(out), axis=0) < _SAME
        self.signs |= bool((same & (np.ptp(out, axis=0) > _SAME)).any())
        self.noted.append(np.sign(out[..., :1, :]) * same.all(axis=-2, keepdims=True))
        return root

    def relu(self, x: Array) -> Array:
        """The larger of x and 0, and which units are on."""
        self.noted.append(x > 0)
        return super().relu(x)

    def largest(self, x: Array, count: int, groups: int = 0, within: int = 0) -> Array:
        """Ones at the largest entries, and where they are."""
        self.noted.append(super().largest(x, count, groups, within))
        return self.noted[-1]


class Shadow(Formal):
    """The field for one stage mod the first prime.

    `arguments` has, for every draw, the residues that it is a function of.
    """

    def __init__(self, field: Prime, stage: int, regions: Sequence[Array] = ()) -> None:
        super().__init__(field, free_roots=True)
        self.arguments: list[Array] = []
        self._squared: Array = np.zeros(())
        self._stage, self._regions = stage, iter(regions)
        self._on = self._key = np.zeros(1)

    def drawn(self, stream: Stream, argument: Array) -> Array:
        """Random words, the same for the same key."""
        draw = (self._stage << _DRAW) + len(self.arguments)
        self._key = self._keyed(argument) + (draw << (_ARGUMENT + _CLASS))
        self.arguments.append(argument)
        return Prime.drawn(self, stream, self._key)

    def _keyed(self, argument: Array) -> Array:
        return argument

    def _zero(self) -> Array:
        """Where the last argument is 0."""
        return np.asarray(self.arguments[-1] == 0)

    def exp(self, x: Array, used: Array | None = None) -> Array:  # noqa: ARG002
        """Random non-zero residues; 1 where the argument is 0."""
        drawn = self.nonzero(self.drawn(Stream.EXPONENTIALS, self.residues(x)))
        return np.where(self._zero(), 1.0, drawn)

    def mul(self, x: Array, y: Array) -> Array:
        """The product; remembers what is squared."""
        self._squared = x if x is y else self._squared
        return super().mul(x, y)

    def sqrt(self, x: Array) -> Array:
        """Random non-zero residues. In a region where a norm gives a sign, the first entry of what
        it divides, with its sign, times the root of a number that the weights determine."""
        signs = next(self._regions, None)
        if signs is None or not signs.any():
            return super().sqrt(x)
        first = np.where(signs, self._squared[..., :1, :], 1.0)
        below = self.reciprocal(first)
        square = self.mul(self.mul(x, below), below)
        root, found = self.roots(square)
        free = super().sqrt(square)
        length = np.where(found & (signs != 0), root, free)
        return self.mul(length, np.where(signs, first * signs, 1.0))

    def cdf(self, x: Array) -> Array:
        """Random residues."""
        return Prime.cdf(self, x)

    def pdf(self, x: Array) -> Array:  # noqa: ARG002
        """Random non-zero residues: the derivative of the last `cdf`."""
        return self.nonzero(Prime.drawn(self, Stream.DENSITY, self._key))

    def relu(self, x: Array) -> Array:
        """x or 0, by the region."""
        self._on = next(self._regions).astype(np.float64)
        return np.asarray(x * self._on)

    def step(self, x: Array) -> Array:  # noqa: ARG002
        """The derivative of the last `relu`."""
        return self._on

    def largest(self, x: Array, count: int, groups: int = 0, within: int = 0) -> Array:  # noqa: ARG002
        """The experts that are chosen in the region."""
        return next(self._regions)

    def fraction(self, value: Fraction) -> Array:
        """A rational number, if p does not divide its denominator."""
        if value.denominator % self.p == 0:
            raise UnluckyError("the prime divides a denominator; try another seed")
        return super().fraction(value)

    def slope(self, rate: Slope) -> Array:
        """A random residue for every rate."""
        return self._named(Stream.SLOPES, str(rate))

    def turns(self, speed: Frequencies, count: int) -> tuple[Array, Array]:
        """Powers of a random point of the circle for every plane."""
        planes = range(speed.planes)
        each = [int(self._named(Stream.CIRCLE, f"{speed} {plane}").item()) for plane in planes]
        return self.on_circle([(s, 1) for s in each], count)

    def _named(self, stream: Stream, name: str) -> Array:
        """The random residue of a constant that has a name."""
        index = int.from_bytes(sha256(name.encode()).digest()[:8], "big")
        return self.draw(stream, index, (1, 1))


class Free(Shadow):
    """The field for one stage mod the second prime, given classes of arguments mod the first.

    `keys` has, for every draw, its keys: -1 where the argument is 0.
    """

    def __init__(
        self, field: Prime, stage: int, classes: Sequence[Array], regions: Sequence[Array] = ()
    ) -> None:
        super().__init__(field, stage, regions)
        self._classes = iter(classes)
        self.keys: list[Array] = []

    def _keyed(self, argument: Array) -> Array:
        known = next(self._classes)
        key = np.asarray(argument + (known << _ARGUMENT))
        self.keys.append(np.where((argument == 0) & (known == 0), -1, key))
        return key

    def _zero(self) -> Array:
        return np.asarray(self.keys[-1] < 0)


def classes(arguments: Array) -> Array:
    """Equal arguments have equal numbers, from 1 in the order in which they appear; 0 has 0."""
    _, first, number = np.unique(arguments, return_index=True, return_inverse=True)
    same = first[number.reshape(-1)].reshape(arguments.shape) + 1
    if same.size >> _CLASS:
        raise TooLargeError("too many exponentials to compare")
    return np.where(arguments == 0, 0, same)
