"""How does a value vary while weights move along an entry? Turns and shifts.

An entry moves weights by parameters: the numbers of a matrix E, of a table of charges, or of
arrays. The variation dx of a node x is linear in them. It is written as a sum of terms:

| term | dx |
|---|---|
| `Turn` | c D E D^-1 x along one axis, D diagonal; *dual*: -c D E^T D^-1 x |
| `Shift`, exact | an array, known at the point, the same for all inputs |
| `Shift` | some linear function of an array (its cause): zero if that is |
| `Shift`, relative | x times such a shift, entry by entry: a charge, if it is exact |

Copies are axes along which E has a matrix each. A shift may be a multiple of a *direction* along
an axis: of a product of powers of weight vectors; the empty product is the vector of ones.
All axes are counted from the last one (-1), so that broadcasting keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segre.kernel.graph import Place

Entries = NDArray[np.int64]
Mask = NDArray[np.bool_]
Direction = tuple[tuple[Place, int], ...]  # weight vectors and their exponents, sorted
ONES: Direction = ()


def times(direction: Direction, other: Direction, sign: int = 1) -> Direction:
    """The product of two directions, or their quotient."""
    powers = dict(direction)
    for place, power in other:
        powers[place] = powers.get(place, 0) + sign * power
    return tuple(sorted((place, power) for place, power in powers.items() if power))


@dataclass(frozen=True, slots=True)
class Turn:
    """D E D^-1 along an axis, or if `dual` -D E^T D^-1; copies are (axis of E, axis of x)."""

    axis: int
    copies: tuple[tuple[int, int], ...]
    gains: Direction = ONES
    dual: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Shift:
    """What is added to x: `array` has the parameters along its first axis.

    Along the axes of `along` the shift is a multiple of a direction, and the array of an exact
    shift has size 1. `mask` says which entries of the array are not zero for all weights. `key`
    names the formula of the array: equal keys have equal arrays at all weights. The array is a
    linear function of that of the `parent`, if there is one. If `whole` is not 0, the array has the
    same whole numbers at all weights, of at most this absolute value, which is far below p.
    A `relative` shift is multiplied by x before it is added.
    """

    array: Entries
    mask: Mask
    along: Mapping[int, Direction]
    exact: bool
    key: Any
    parent: Shift | None = None
    whole: int = 0
    relative: bool = False


@dataclass(frozen=True, slots=True)
class Variation:
    """A sum of terms; turns have coefficients, never zero."""

    turns: dict[Turn, int] = field(default_factory=dict)
    shifts: tuple[Shift, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.turns or self.shifts)


NONE = Variation()
LARGEST = 1 << 14  # whole numbers up to here are told apart mod p, and so are their differences


def bounded(size: int) -> int:
    """The bound of a whole array, or 0 if it is too large."""
    return size if size < LARGEST else 0


def fixed(
    array: Entries, along: Mapping[int, Direction], key: Any, size: int, *, relative: bool = False
) -> Shift:
    """The exact shift of a weight by whole numbers, of at most this absolute value."""
    return Shift(array, array != 0, along, True, key, whole=bounded(size), relative=relative)


def unknown(shift: Shift) -> Shift:
    """A shift of which nothing is known but its cause."""
    return replace(shift, along={}, exact=False, relative=False)


def absolute(value: Variation) -> Variation:
    """Relative shifts read as shifts of which nothing else is known."""
    shifts = (unknown(shift) if shift.relative else shift for shift in value.shifts)
    return replace(value, shifts=tuple(shifts))


def without(along: Mapping[int, Direction], *axes: int) -> dict[int, Direction]:
    """The directions along other axes."""
    return {axis: direction for axis, direction in along.items() if axis not in axes}


def ancestors(shift: Shift | None) -> list[Shift]:
    """A shift and those that it is a linear function of, the nearest first."""
    found = []
    while shift is not None:
        found.append(shift)
        shift = shift.parent
    return found
