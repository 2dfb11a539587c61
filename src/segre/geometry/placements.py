"""Where can the filters of a convolutional network begin without a change of its function?

Zeros at the ends of a filter leave room to move it. A filter that begins one place later moves the
input by the product of the strides before its layer, so filters can be moved against each other:
the placements with one function are the solutions of one linear equation in bounded integers.
docs/geometry.md proves that there are no other filters with the same function, up to scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from segre.fields.interface import Array
from segre.fields.linear import TOLERANCE
from segre.polynomial.spec import Convolution


@dataclass(frozen=True)
class Placements:
    """What of each filter is between the zeros at its ends, and where all of them may begin."""

    layers: tuple[Convolution, ...]
    starts: tuple[int, ...]
    inner: tuple[Array, ...]

    @classmethod
    def of(cls, layers: tuple[Convolution, ...], filters: list[Array]) -> Placements:
        """Trim the filters."""
        trimmed = [_trimmed(taps) for taps in filters]
        return cls(layers, tuple(start for start, _ in trimmed), tuple(taps for _, taps in trimmed))

    @property
    def zero(self) -> bool:
        """Whether a filter is zero, and so the function."""
        return any(not len(taps) for taps in self.inner)

    @cached_property
    def steps(self) -> list[int]:
        """By how much a filter that begins one place later moves the input."""
        out = [1]
        for layer in self.layers[:-1]:
            out.append(out[-1] * layer.stride)
        return out

    @property
    def room(self) -> list[int]:
        """How many places later than at its first a filter may begin."""
        return [
            layer.kernel - len(taps) for layer, taps in zip(self.layers, self.inner, strict=True)
        ]

    @property
    def shift(self) -> int:
        """By how much the input is moved in all."""
        return sum(start * step for start, step in zip(self.starts, self.steps, strict=True))

    def count(self) -> int:
        """How many placements have the function."""
        ways = {self.shift: 1}  # by what is left to move, from the last layer to the first
        for place in reversed(range(len(self.layers))):
            after: dict[int, int] = {}
            for left, number in ways.items():
                for start in self._allowed(place, left):
                    rest = left - start * self.steps[place]
                    after[rest] = after.get(rest, 0) + number
            ways = after
        return ways.get(0, 0)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Where the filters begin, for each placement that has the function."""
        yield from self._from(len(self.layers) - 1, self.shift)

    def _from(self, place: int, left: int) -> Iterator[tuple[int, ...]]:
        if place < 0:
            yield ()
            return
        for start in self._allowed(place, left):
            for before in self._from(place - 1, left - start * self.steps[place]):
                yield (*before, start)

    def _allowed(self, place: int, left: int) -> range:
        """Starts of a filter after which the filters of earlier layers can still do the rest."""
        step, reach = self.steps[place], self._reach[place]
        least = max(0, -(-(left - reach) // step))
        return range(least, min(self.room[place], left // step) + 1)

    @cached_property
    def _reach(self) -> list[int]:
        """By how much the filters before each can move the input at most."""
        out = [0]
        for room, step in zip(self.room, self.steps, strict=True):
            out.append(out[-1] + room * step)
        return out[:-1]

    def placed(self, starts: tuple[int, ...]) -> Array:
        """All filters, one after the other, where they begin as given."""
        parts = []
        for layer, taps, start in zip(self.layers, self.inner, starts, strict=True):
            own = np.repeat(taps[:1] - taps[:1], layer.kernel)
            own[start : start + len(taps)] = taps
            parts.append(own)
        return np.concatenate(parts)


def _trimmed(taps: Array) -> tuple[int, Array]:
    """Where a filter begins, and its entries between the zeros at its ends."""
    if taps.dtype == object:
        (used,) = np.nonzero(taps)
    else:
        size = np.abs(taps)
        (used,) = np.nonzero(size > TOLERANCE * size.max())
    return (int(used[0]), taps[used[0] : used[-1] + 1]) if len(used) else (0, taps[:0])
