"""Polynomials of counts, each once; counts of one label are told apart by their values."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import lcm
from typing import Any

from segre.explore.formulas import Counts, DisagreementError, Fitted, Sizes
from segre.sweep.polynomial import Polynomial


class Pool:
    """Polynomials, each once; counts of one label are told apart by their values at a point."""

    def __init__(self) -> None:
        self.formulas: list[list[Any]] = []
        self.polynomials: list[Polynomial] = []
        self.labels: list[tuple[str, ...]] = []
        self.by_label: dict[tuple[str, ...], list[int]] = {}

    def numbers(
        self, counts: Counts, at: Sizes, make: Callable[[list[tuple[str, ...]]], Fitted]
    ) -> list[int]:
        """The numbers of the polynomials that have some counts at a point; what is new is made."""
        found = {label: self._known(label, n, at) for label, n in counts.items()}
        new = [label for label, number in found.items() if number is None]
        if new:
            made = make(new)
            found |= {label: self._add(label, made.by_label[label]) for label in new}
        return [number for number in found.values() if number is not None]

    def _known(self, label: tuple[str, ...], value: int, at: Sizes) -> int | None:
        for number in self.by_label.get(label, ()):
            if self.polynomials[number].value(at) == value:
                return number
        return None

    def _add(self, label: tuple[str, ...], polynomial: Polynomial) -> int:
        number = len(self.labels)
        self.by_label.setdefault(label, []).append(number)
        self.labels.append(label)
        self.formulas.append(_written(polynomial))
        self.polynomials.append(polynomial)
        return number

    def values(self, numbers: list[int], at: Sizes) -> dict[tuple[str, ...], int]:
        """The counts that the polynomials give at some sizes; zeros are left out."""
        out: dict[tuple[str, ...], int] = {}
        for number in numbers:
            value = self.polynomials[number].value(at)
            if value.denominator != 1:
                raise DisagreementError(f"{self.labels[number]} is {value} at {at}")
            if value:
                out[self.labels[number]] = out.get(self.labels[number], 0) + int(value)
        return out


def _written(polynomial: Polynomial) -> list[Any]:
    """A denominator, and terms: a coefficient and the sizes that it is multiplied by."""
    whole = lcm(*(c.denominator for c in polynomial.terms.values())) if polynomial.terms else 1
    terms = sorted((m, c * whole) for m, c in polynomial.terms.items())
    return [whole, *([int(Fraction(c)), "".join(m)] for m, c in terms)]
