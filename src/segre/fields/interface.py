"""What the forward map asks of a number system.

An element is a batch of matrices: an array whose last two axes are rows and columns, the
axes before them broadcasting as in NumPy. `Prime`, `Real` and `Ball` compute with NumPy
arrays; `Dual` over any of them computes with pairs (value, tangents).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy.typing as npt

from segre.fields.circle import Frequencies
from segre.slope import Slope

Array = npt.NDArray[Any]
E = TypeVar("E")


class Factor(NamedTuple):
    """A factor that weights can absorb: sqrt(square) (1 + up ln(of)) / (1 + down ln(of)).

    If `under` is not 0, times sqrt(1 + ln(of) / ln(under)).
    """

    square: Fraction
    up: Fraction = Fraction(0)
    down: Fraction = Fraction(0)
    of: Fraction = Fraction(1)
    under: Fraction = Fraction(0)


class Field(Protocol[E]):
    """Arithmetic on batches of matrices."""

    def constant(self, x: Array) -> E:
        """Integers as elements."""

    def fraction(self, value: Fraction) -> E:
        """A rational number, as a 1 x 1 matrix."""

    def add(self, x: E, y: E) -> E:
        """Entrywise sum."""

    def mul(self, x: E, y: E) -> E:
        """Entrywise product."""

    def matmul(self, x: E, y: E) -> E:
        """Matrix product of the last two axes."""

    def transpose(self, x: E) -> E:
        """Rows and columns exchanged."""

    def sum(self, x: E, axis: int) -> E:
        """Sum along a negative `axis`, which stays, with length one."""

    def exp(self, x: E, used: Array | None = None) -> E:
        """Entrywise exponential; entries that are not `used` do not matter."""

    def reciprocal(self, x: E) -> E:
        """Entrywise inverse; raises UnluckyError where there is none."""

    def anchor(self, x: E, used: Array | None = None, axis: int = -2) -> E:
        """Shift each column by a number, as suits the field: a softmax does not notice.

        Columns are along a negative `axis`, which is that of rows unless it is given.
        Entries that are not `used` do not matter, and may come out as anything.
        """

    def softmax(
        self, scores: E, seen: E | None = None, used: Array | None = None, sink: bool = False
    ) -> E:
        """exp(scores), each column divided by its sum; with `seen` (zeros and ones), only there.

        With `sink` the sum has one more term, 1.
        """

    def double_softmax(self, scores: E, shown: E | None = None, used: Array | None = None) -> E:
        """exp(scores) times `shown`, each row divided by its sum, and then each column by its."""

    def shares(self, x: E, chosen: Array | None = None) -> E:
        """exp(x), divided by its sum along axis -3: of the `chosen` entries only, or of all."""

    def permuted(self, x: E, order: Array) -> E:
        """The rows of x in another order; -1 is a row of zeros."""

    def joined(self, maps: E, parts: E, heads: tuple[int, int]) -> E:
        """maps @ parts, summed over the query heads of each key-value head and over those."""


class Analytic(Field[E], Protocol[E]):
    """The operations of transformers beyond arithmetic: roots, activations, rotations."""

    def surd(self, n: int, over_pi: bool = False) -> E:
        """The square root of n, or of n / pi, as a 1 x 1 matrix."""

    def slope(self, rate: Slope) -> E:
        """A decay rate that is no fraction, as a 1 x 1 matrix."""

    def sigmoid(self, x: E) -> E:
        """Entrywise 1 / (1 + exp(-x))."""

    def cdf(self, x: E) -> E:
        """Entrywise distribution function of the normal distribution."""

    def sqrt(self, x: E) -> E:
        """Entrywise square root."""

    def relu(self, x: E) -> E:
        """Entrywise larger of x and 0."""

    def largest(self, x: E, count: int, groups: int = 0, within: int = 0) -> Array:
        """Ones at the `count` largest entries along axis -3, zeros elsewhere.

        With `groups`, only in the `within` groups whose two largest entries have the largest sums.
        """

    def absorbed(self, *factor: Fraction) -> E:
        """A `Factor`. Nothing proved depends on it, so that fields without logarithms say 1."""

    def turns(self, speed: Frequencies, count: int) -> tuple[E, E]:
        """cos and sin of m times the frequency of plane j, at positions m: (planes, count)."""


class ArrayField(Analytic[Array], Protocol):
    """A field whose elements are NumPy arrays: what `Dual` can be taken over."""

    def pdf(self, x: Array) -> Array:
        """Entrywise density of the normal distribution: the derivative of `cdf`."""

    def step(self, x: Array) -> Array:
        """1 where x > 0, else 0: the derivative of `relu`."""

    def sub(self, x: Array, y: Array) -> Array:
        """Entrywise difference."""

    def identity(self, rows: int, columns: int, first: int) -> Array:
        """Ones at (i, first + i), zeros elsewhere."""

    def loose_mul(self, x: Array, y: Array) -> Array:
        """An entrywise product that may be added to another one, and then must be made `tight`."""

    def loose_matmul(self, x: Array, y: Array) -> Array:
        """The same for a matrix product."""

    def tight(self, x: Array) -> Array:
        """A loose product, or the sum of two, as an element; x itself may be changed."""
