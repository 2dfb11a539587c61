"""The effect of a design choice on the symmetries, found by undoing it and counting again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from segre.architectures import Architecture
from segre.errors import TooLargeError, UnluckyError
from segre.finding import GROUPS
from segre.geometry.memory import bytes_for_symmetries, require_memory
from segre.geometry.point import Point
from segre.geometry.rank import symmetry_rank
from segre.geometry.stack_choices import stack_choices
from segre.polynomial.spec import Dense, Polynomial
from segre.spec import Network


@dataclass(frozen=True)
class Choice:
    """A design choice, its alternative, and the change in redundancy."""

    name: str
    instead: str
    spec: Architecture  # the same network with the other choice
    change: dict[str, int]  # by piece: redundant parameters with the other choice, minus here

    @property
    def total(self) -> int:
        """Total number of redundant parameters with the alternative, minus that of this choice."""
        return sum(self.change.values())

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "choice": self.name,
            "instead_of": self.instead,
            "spec": str(self.spec),
            "change": self.change,
            "total": self.total,
        }


def choices_undone(
    spec: Architecture, here: Mapping[str, int], seed: int, memory: int
) -> Iterator[Choice]:
    """The choices; those that would need too much memory to undo are left out."""
    for name, instead, other in _alternatives(spec):
        try:
            require_memory(other, bytes_for_symmetries(other), memory)
            found = symmetry_rank(Point.draw(other, seed))
        except (TooLargeError, UnluckyError):
            continue
        there = Counter[str]()
        for symmetry in found.symmetries:
            there[symmetry.group] += symmetry.dimension
        yield Choice(name, instead, other, {one: there[one] - here[one] for one in GROUPS})


@singledispatch
def _alternatives(spec: Architecture) -> Iterator[tuple[str, str, Architecture]]:
    raise TypeError(f"alternatives to a {type(spec).__name__} are not known")


_alternatives.register(Network, stack_choices)


@_alternatives.register
def _of_polynomial(spec: Polynomial) -> Iterator[tuple[str, str, Architecture]]:
    if spec.degree > 1 and spec.depth > 1:
        name = f"the activation x^{spec.degree}"
        yield name, "no activation", replace(spec, degree=1)
    if spec.bias:
        yield "biases", "no biases", replace(spec, bias=False)
    if spec.convolutional:
        layers = tuple(Dense(layer.width_in, layer.width_out) for layer in spec.layers)
        yield "shared filters", "dense layers of the same widths", replace(spec, layers=layers)
