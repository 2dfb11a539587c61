"""Choices that may differ between layers: one value for all, or a list that is repeated."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

Windows = tuple[int, ...]
Base = int | Fraction
Bases = Base | tuple[Base, ...]
Dense = int | tuple[int, ...]  # of the first layers, or by layer: 1 or 0
Rescales = str | tuple[str, ...]
Attns = str | tuple[str, ...]  # names of mechanisms
Item = TypeVar("Item", int, str, Base)


def every(given: Item | tuple[Item, ...], layers: int) -> list[Item]:
    """The value of every layer."""
    if not isinstance(given, tuple):
        return [given] * max(1, layers)
    return [given[i % len(given)] for i in range(max(1, layers))]


def shortest(values: Sequence[Item]) -> tuple[Item, ...]:
    """The shortest list that gives these values when it is repeated.

    >>> shortest([8, 0, 8]), shortest([8, 0, 8, 8]), shortest([8, 8])
    ((8, 0), (8, 0, 8), (8,))
    """
    length = next(n for n in range(1, len(values) + 1) if values[n:] == values[: -n or None])
    return tuple(values[:length])


def windows(given: Windows, layers: int) -> Windows:
    """The shortest list of windows; empty if there are no windows.

    >>> windows((8, 0, 8), 3), windows((8, 0, 8), 4), windows((8, 8), 2), windows((0,), 2)
    ((8, 0), (8, 0, 8), (8,), ())
    """
    if not any(given):
        return ()
    found = every(given, layers)
    return shortest(found) if any(found) else ()


def rotations(base: Bases, rescale: Rescales, layers: int) -> tuple[Bases, Rescales]:
    """The shortest lists, or one value; layers with base 0 have no rescaling.

    >>> rotations((5, 0, 5, 0), ("linear:2", "linear:3"), 4), rotations((5, 5), ("", "yarn"), 2)
    (((5, 0), 'linear:2'), (5, ('', 'yarn')))
    """
    bases, hows = every(base, layers), every(rescale, layers)
    used = {how for own, how in zip(bases, hows, strict=True) if own}
    if len(used) > 1:
        hows = [how if own else "" for own, how in zip(bases, hows, strict=True)]
    else:
        hows = [*used] or [""]
    return _one_or_list(bases), _one_or_list(hows)


def mechanisms(given: Attns, layers: int) -> Attns:
    """The shortest list, or one name.

    >>> mechanisms(("lightning", "softmax", "lightning"), 2), mechanisms(("softmax", "softmax"), 2)
    (('lightning', 'softmax'), 'softmax')
    """
    return _one_or_list(every(given, layers))


def dense_layers(given: Dense, layers: int) -> Dense:
    """How many of the first layers are dense, if these are all; otherwise the shortest list.

    >>> dense_layers((1, 1, 0), 3), dense_layers((1, 0), 4), dense_layers((0, 1), 1)
    (2, (1, 0), 0)
    """
    if not isinstance(given, tuple):
        return given
    found = every(given, layers)
    first = sum(found)
    return first if all(found[:first]) else shortest(found)


def _one_or_list(values: list[Item]) -> Item | tuple[Item, ...]:
    found = shortest(values)
    return found[0] if len(found) == 1 else found
