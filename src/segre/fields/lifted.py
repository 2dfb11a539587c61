"""Fields over another one: constants are those of the base, lifted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

from segre.fields.circle import Frequencies
from segre.fields.composite import Composite
from segre.fields.interface import Array, ArrayField, E
from segre.slope import Slope


class Lifted(Composite[E], ABC):
    """A field whose elements carry derivatives; constants have none."""

    base: ArrayField

    @abstractmethod
    def lift(self, x: Array) -> E:
        """An array of the base as a constant."""

    def constant(self, x: Array) -> E:
        """Integers as elements."""
        return self.lift(self.base.constant(x))

    def fraction(self, value: Fraction) -> E:
        """A rational number."""
        return self.lift(self.base.fraction(value))

    def surd(self, n: int, over_pi: bool = False) -> E:
        """A square root."""
        return self.lift(self.base.surd(n, over_pi))

    def slope(self, rate: Slope) -> E:
        """A decay rate."""
        return self.lift(self.base.slope(rate))

    def absorbed(self, *factor: Fraction) -> E:
        """A factor."""
        return self.lift(self.base.absorbed(*factor))

    def turns(self, speed: Frequencies, count: int) -> tuple[E, E]:
        """Rotations."""
        cos, sin = self.base.turns(speed, count)
        return self.lift(cos), self.lift(sin)
