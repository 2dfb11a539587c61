"""The grid on which the numbers of a file lie: a narrower type, a few levels per row, many zeros.

Rounding, quantisation and pruning leave traces in the numbers, for any type of the file. They are
looked for in some rows and columns of every matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from segre.checkpoint.dtypes import FLOATS, DType, dtype_name, rounded
from segre.checkpoint.model import Model, unit_roundoff
from segre.checkpoint.rounding import spacing
from segre.fields.interface import Array

LINES = 8  # rows, and columns, of a matrix that are looked at
GROUPS = (0, 128, 64, 32, 16)  # numbers that share a scale; 0: whole rows or columns
FEWEST = 12  # numbers that can show a grid
LEVELS = 256  # of a grid, at most
FP4 = {0, 1, 2, 3, 4, 6, 8, 12}  # the numbers of 4-bit floats, twice
MOST = 0.5  # of the matrices must be on a grid, of which ...
CLEAR = 0.8  # ... so many of the groups are
SOME = 2  # groups that are tried before the others are, and ...
FIRST = 16  # ... so many numbers of a group
EVIDENCE = 12  # numbers off the grid would fit it with a chance of 1 in 2 to this power
FAR = 2.0**-12  # of the largest: floats of 8 bits that are smaller have fewer digits
ARITHMETIC = 2.0**-22  # of the largest number: what computing in single precision does


@dataclass(frozen=True)
class Grid:
    """The restrictions that the numbers of a checkpoint satisfy."""

    type: str  # the narrowest type that has all numbers of all matrices
    bits: int | None  # of levels with one scale for each group; None if there are no levels

    @property
    def dtype(self) -> DType:
        """The narrowest type."""
        return FLOATS[self.type]


def grid_of(model: Model) -> Grid:
    """The grid on which a checkpoint's matrices lie."""
    widest: list[DType] = []
    levels: list[int | None] = []
    for _, held, entry in model.files:
        if len(entry.shape) < 2 or min(entry.shape[-2:]) < 2:
            continue
        matrix = model.store.raw(held.file).reshape(-1, entry.shape[-1])
        lines = [x.astype(np.float64) for x in _lines(matrix)]
        widest.append(_narrowest(lines, entry.dtype))
        levels.append(_levels(lines, matrix, entry.dtype))
    known = [bits for bits in levels if bits is not None]
    on = len(known) >= MOST * len(levels) and bool(known)
    kind = min(widest, key=unit_roundoff, default=FLOATS["F32"])
    return Grid(dtype_name(kind), max(set(known), key=known.count) if on else None)


def _lines(matrix: Array) -> Iterator[Array]:
    """Some rows, and some columns, spread over a matrix."""
    for side in (matrix, matrix.T):
        at = np.unique(np.linspace(0, len(side) - 1, LINES).astype(int))
        yield from (np.ascontiguousarray(side[i]) for i in at)


def _narrowest(lines: list[Array], stored: DType, among: Iterable[DType] = ()) -> DType:
    """The type with the largest rounding error that has all these numbers."""
    values = np.concatenate(lines)
    types = among or FLOATS.values()
    types = [t for t in types if unit_roundoff(t) >= unit_roundoff(stored)]
    for dtype in sorted(types, key=unit_roundoff, reverse=True):
        if np.array_equal(rounded(values, dtype).astype(np.float64), values):
            return dtype
    return stored


def _levels(lines: list[Array], matrix: Array, stored: DType) -> int | None:
    """The bits of the levels on which most groups of numbers lie; rows, or else columns."""
    half = len(lines) // 2
    wide = [t for t in FLOATS.values() if unit_roundoff(t) <= unit_roundoff(FLOATS["BF16"])]
    dtype = _narrowest(lines, stored, wide)
    flat = matrix.reshape(-1)[: max(GROUPS) * LINES].astype(np.float64)  # groups across rows
    across = [size for size in GROUPS if size and matrix.shape[1] % size]
    sides = (lines[:half], GROUPS), ([flat], across), (lines[half:], GROUPS)
    for side, sizes in (*sides, ([np.concatenate(lines)], GROUPS[:1])):
        for size in sizes:
            groups = [group for line in side for group in _groups(line, size)]
            groups = [x for x in groups if np.count_nonzero(x) >= FEWEST][: LINES * LINES]
            if not any(_bits(x, dtype) for x in groups[:SOME]):
                continue
            found = [bits for x in groups if (bits := _bits(x, dtype)) is not None]
            if len(found) >= CLEAR * len(groups):
                return max(set(found), key=found.count)
    return None


def _groups(line: Array, size: int) -> list[Array]:
    if not size:
        return [line]
    return [line[i : i + size] for i in range(0, len(line) - size + 1, size)]


def _bits(group: Array, dtype: DType) -> int | None:
    """How many bits hold a group of numbers, which were then rounded to a type; None if too many.

    The levels are multiples of a step, with a shift or without; floats of 8 bits with a scale;
    or any 16 numbers.

    >>> _bits(np.arange(-7, 8) * 0.3, np.dtype("float32"))
    4
    >>> _bits(np.random.default_rng(0).standard_normal(64), np.dtype("float32")) is None
    True
    """
    there = group[group != 0]
    distinct = len(np.unique(there))
    if len(there) < FEWEST or distinct == 1:
        return None
    if len(there) >= 48 and distinct <= 16:
        return max(2, int(np.ceil(np.log2(distinct + 1))))
    shifts = (0.0, there[np.abs(there).argmin()])
    if found := [bits for x in shifts if (bits := _on_steps(there, x, dtype)) is not None]:
        return min(found)
    sizes = np.abs(there)
    sizes = sizes[sizes > FAR * sizes.max()]
    steps = [
        sizes.max() / m * 2.0 ** np.floor(np.log2(sizes / (sizes.max() / m * 2**p)) + 1e-9)
        for p in (2, 3)
        for m in range(2**p, 2 ** (p + 1))
    ]
    return 8 if (_evidence(sizes, 0.0, np.array(steps), dtype) >= EVIDENCE).any() else None


def _on_steps(values: Array, shift: float, dtype: DType) -> int | None:
    """The bits, if values are multiples of one step, up to a shift."""
    most = np.abs(values - shift).max()
    steps = most / np.arange(1, LEVELS)
    fits = _evidence(values, shift, steps[:, None], dtype) >= EVIDENCE
    if not fits.any():
        return None
    places = np.round((values - shift) / steps[fits.argmax()])
    if not shift and {*np.abs(places)} <= FP4:
        return 4
    bits = max(2, int(np.ceil(np.log2(np.ptp(np.append(places, 0)) + 1))))
    return bits if 2**bits <= LEVELS else None


def _evidence(values: Array, shift: float, steps: Array, dtype: DType) -> Array:
    """For every row of steps: minus the logarithm of the chance that random numbers fit it.

    Minus infinity if these do not fit. A step is known as well as the largest number.
    """
    half = spacing(values, dtype) / 2
    places = np.abs(values - shift)
    most = places.argmax()
    error = half + ARITHMETIC * np.abs(values).max()
    if shift:
        error = error + half.min()
    error = error + places * (error[most] / places[most])
    some = np.append(np.arange(min(FIRST, len(values))), most)
    out = np.full(len(steps), -np.inf)
    for which in (some, np.arange(len(values))):  # most steps do not fit the first few
        kept = np.flatnonzero(np.isfinite(out)) if which is not some else np.arange(len(steps))
        own = np.broadcast_to(steps, (len(steps), len(values)))[np.ix_(kept, which)]
        off = np.abs(places[which] - np.round(places[which] / own) * own)
        chance = np.log2(np.minimum(1, 2 * error[which] / own))
        chance[:, which == most] = 0
        sums = -chance.sum(axis=1) - np.log2(len(steps))
        out[kept] = np.where((off <= error[which]).all(axis=1), sums, -np.inf)
    return out
