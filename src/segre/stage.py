"""A network as a sequence of stages: each maps tokens to tokens with some weight tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one weight tensor lies in the vector of all weights."""

    name: str
    start: int
    shape: tuple[int, ...]
    size: int = field(init=False, repr=False, compare=False)  # number of entries
    range: slice = field(init=False, repr=False, compare=False)  # its range of indices

    def __post_init__(self) -> None:
        """Compute the size and the range once, since they are read often."""
        object.__setattr__(self, "size", prod(self.shape))
        object.__setattr__(self, "range", slice(self.start, self.start + self.size))


@dataclass(frozen=True)
class Stage:
    """One step of a forward map: its tensors by name, and the map.

    `apply(field, tensors, tokens)` works over any field. Two stages may name the same slot:
    the weights are then shared. Slots come in the order in which they are used.
    """

    name: str
    slots: dict[str, Slot]
    apply: Callable[[Any, Mapping[str, Any], Any], Any]
    mixes: bool = True  # whether tokens see each other
    axes: int = 3  # of an input's tokens: axes of heads, rows, columns
