"""The grid on which the numbers of a file lie: a narrower type, a few levels per row, many zeros.

Rounding, quantisation and pruning leave traces in the numbers, for any type of the file. They are
looked for in some rows and columns of every matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from segre.checkpoint.dtypes import FLOATS, DType, dtype_name, rounded
from segre.checkpoint.model import Model, unit_roundoff
from segre.fields.interface import Array

LINES = 8  # rows, and columns, of a matrix that are looked at
GROUPS = (0, 128, 64, 32)  # numbers that share a scale; 0: whole rows or columns
FEWEST = 12  # numbers that can show a grid
BITS = (2, 3, 4, 5, 6, 8)
MOST = 0.5  # of the matrices must be on a grid, of which ...
CLEAR = 0.8  # ... so many of the groups are
NEAR, LOOSE = 1e-3, 0.05  # of a step


@dataclass(frozen=True)
class Grid:
    """The restrictions that the numbers of a checkpoint satisfy."""

    type: str  # the narrowest type that has all numbers of all matrices
    bits: int | None  # of levels with one scale for each group; None if there are no levels
    zeros: float  # fraction of entries of matrices that are zero

    @property
    def dtype(self) -> DType:
        """The narrowest type."""
        return FLOATS[self.type]


def grid_of(model: Model) -> Grid:
    """The grid on which a checkpoint's matrices lie."""
    widest: list[DType] = []
    levels: list[int | None] = []
    zeros = total = 0
    for every in model.held.values():
        for held in every:
            entry = model.store.entries[held.file]
            if len(entry.shape) < 2 or min(entry.shape[-2:]) < 2:
                continue
            matrix = model.store.raw(held.file).reshape(-1, entry.shape[-1])
            lines = [x.astype(np.float64) for x in _lines(matrix)]
            widest.append(_narrowest(lines, entry.dtype))
            levels.append(_levels(lines, unit_roundoff(entry.dtype)))
            zeros += sum(int((x == 0).sum()) for x in lines)
            total += sum(len(x) for x in lines)
    known = [bits for bits in levels if bits is not None]
    on = len(known) >= MOST * len(levels) and bool(known)
    kind = min(widest, key=unit_roundoff, default=FLOATS["F32"])
    return Grid(
        dtype_name(kind), max(set(known), key=known.count) if on else None, zeros / max(total, 1)
    )


def _lines(matrix: Array) -> Iterator[Array]:
    """Some rows, and some columns, spread over a matrix."""
    for side in (matrix, matrix.T):
        at = np.unique(np.linspace(0, len(side) - 1, LINES).astype(int))
        yield from (np.ascontiguousarray(side[i]) for i in at)


def _narrowest(lines: list[Array], stored: DType) -> DType:
    """The type with the largest rounding error that has all these numbers."""
    values = np.concatenate(lines)
    types = [t for t in FLOATS.values() if unit_roundoff(t) >= unit_roundoff(stored)]
    for dtype in sorted(types, key=unit_roundoff, reverse=True):
        if np.array_equal(rounded(values, dtype).astype(np.float64), values):
            return dtype
    return stored


def _levels(lines: list[Array], unit: float) -> int | None:
    """The bits of the levels on which most groups of numbers lie; rows, or else columns."""
    half = len(lines) // 2
    for side in (lines[:half], lines[half:], [np.concatenate(lines)]):
        for size in GROUPS:
            groups = [group for line in side for group in _groups(line, size)]
            found = [bits for group in groups if (bits := _bits(group, unit)) is not None]
            if groups and len(found) >= CLEAR * len(groups):
                return max(found)
    return None


def _groups(line: Array, size: int) -> list[Array]:
    if not size:
        return [line]
    return [line[i : i + size] for i in range(0, len(line) - size + 1, size)]


def _bits(group: Array, unit: float) -> int | None:
    """How many bits hold a group of numbers, up to one scale and one shift; None if too many.

    >>> _bits(np.arange(-7, 8) * 0.3, 2.0**-24)
    4
    >>> _bits(np.random.default_rng(0).standard_normal(64), 2.0**-24) is None
    True
    """
    there = group[group != 0]
    if len(there) < FEWEST:
        return None
    distinct = np.unique(there)
    if len(there) >= 48 and 1 < len(distinct) <= 16:
        return 4
    top, low, high = np.abs(there).max(), group.min(), group.max()
    for bits in BITS:
        half = 2 ** (bits - 1)
        near = max(NEAR, 4 * unit * 2**bits)
        if near > LOOSE or len(distinct) > 2**bits:
            continue
        steps = (top / (half - 1) if half > 1 else top, top / half, (high - low) / (2**bits - 1))
        for step, first in zip(steps, (0.0, 0.0, low), strict=True):
            if not step:
                continue
            places = (there - first) / step
            if np.abs(places - np.round(places)).max() <= near:
                return bits
    return None
