"""What rounding can have done to a checkpoint: its numbers, rounded once more, at random.

A number in a file stands for all numbers that round to it. Moving each stored number at random
within half a spacing of the storage type shows what a rewriting of the file costs, at any place
where it is measured: in a product of a head, in an output.

Rounding explains only what was rewritten. Where rows of a matrix are the same in both files, bit
for bit but for a few entries, nobody rewrote them: those entries were changed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

import numpy as np
from ml_dtypes import finfo

from segre.checkpoint.dtypes import DType, rounded
from segre.checkpoint.layout import Held
from segre.checkpoint.model import Model, unit_roundoff
from segre.fields.interface import Array

IN_PLACE = 0.25  # rows that share at least this much, entry by entry, were not rewritten
RARE = 0.05  # another way of rounding changes more of the entries than this
ROWS = 4096  # of a table, at a time


Where = tuple[str, tuple[str, ...]]  # a part, and the names of what a tensor of it holds


def spacing(values: Array, dtype: DType) -> Array:
    """The distance between neighbouring numbers of a type, at each value; 0 at 0.

    >>> spacing(np.array([1.0, 3.0, 0.0]), np.dtype("float16")).tolist()
    [0.0009765625, 0.001953125, 0.0]
    """
    info = finfo(dtype)  # type: ignore[no-untyped-call]
    exponent = np.frexp(values)[1] - 1
    out = np.ldexp(1.0, np.maximum(exponent, int(info.minexp)) - int(info.nmant))
    return np.where(values == 0, 0.0, out)


@dataclass(frozen=True)
class Touched:
    """What of a stored tensor was rewritten: whole rows and whole columns."""

    dtype: DType  # the coarser of the two types
    rows: Array
    columns: Array

    def mask(self, start: int, stop: int) -> Array:
        """Which entries of some rows rounding can have changed."""
        return self.rows[start:stop, None] | self.columns


@dataclass(frozen=True)
class Differences:
    """How two checkpoints differ, entry by entry in the same place."""

    touched: dict[Where, Touched]
    shared: float  # fraction of the entries that are equal, zeros apart
    differing: int
    last_place: bool  # all that differ do so by one in the last place, and in one direction

    @property
    def in_place(self) -> bool:
        """Whether the two are in the same basis, as far as one can see."""
        return self.shared >= IN_PLACE

    @property
    def another_rounding(self) -> bool:
        """Whether the same numbers, rounded in another way, would look like this."""
        return self.last_place and self.shared < 1 - RARE


def differences(one: Model, two: Model) -> Differences:
    """Compare two checkpoints of one architecture entry by entry, in the coarser of their types."""
    touched: dict[Where, Touched] = {}
    count = _Count()
    for part in one.parts:
        found = [
            _compared(one, two, ours, theirs, count)
            for ours, theirs in zip(one.held[part], two.held[part], strict=True)
        ]
        touched |= {(part, held.names): x for held, x in zip(one.held[part], found, strict=True)}
    shared = count.equal / count.there if count.there else 1.0
    _touch_vectors(touched, shared)
    return Differences(touched, shared, count.differing, shared > 0 and _last_place(one, two))


@dataclass
class _Count:
    """Entries that are not zero in both; equal and differing ones."""

    there: int = 0
    equal: int = 0
    differing: int = 0


def _chunks(
    one: Model, two: Model, ours: Held, theirs: Held, dtype: DType
) -> Iterator[tuple[int, Array, Array]]:
    """Rows of a tensor of both files, in one type."""
    a, b = one.store.raw(ours.file), two.store.raw(theirs.file)
    a, b = (x.reshape(len(x), -1) for x in (a, b))
    for start in range(0, len(a), ROWS):
        x, y = (rounded(np.array(rows[start : start + ROWS]), dtype) for rows in (a, b))
        yield start, x, y


def coarser(one: DType, two: DType) -> DType:
    """The type with the larger rounding error."""
    return max(one, two, key=unit_roundoff)


def _compared(one: Model, two: Model, ours: Held, theirs: Held, count: _Count) -> Touched:
    """Which rows and columns of a tensor were rewritten."""
    a, b = one.store.entries[ours.file], two.store.entries[theirs.file]
    dtype = coarser(a.dtype, b.dtype)
    shape = (a.shape[0], int(np.prod(a.shape[1:])))
    there, equal = (np.zeros((2, max(shape)), np.int64) for _ in range(2))
    for start, x, y in _chunks(one, two, ours, theirs, dtype):
        known = (x != 0) | (y != 0)
        for sums, what in ((there, known), (equal, known & (x == y))):
            sums[0, start : start + len(x)] = what.sum(axis=1)
            sums[1, : shape[1]] += what.sum(axis=0)
    count.there += int(there[1].sum())
    count.equal += int(equal[1].sum())
    count.differing += int(there[1].sum() - equal[1].sum())
    moved = equal < IN_PLACE * there
    if len(a.shape) == 1:  # a vector was rewritten as a whole, or not
        return Touched(dtype, np.full(shape[0], bool(moved[1, 0])), np.zeros(1, bool))
    return Touched(dtype, moved[0, : shape[0]], moved[1, : shape[1]])


def _touch_vectors(touched: dict[Where, Touched], shared: float) -> None:
    """Vectors are short, and often equal by chance: they go with the matrices of their part."""
    for part in {part for part, _ in touched}:
        own = [found for (where, _), found in touched.items() if where == part]
        if shared < IN_PLACE or any(x.rows.any() or x.columns.any() for x in own):
            for found in own:
                if len(found.columns) == 1:
                    found.rows[:] = True


def _last_place(one: Model, two: Model) -> bool:
    """Whether every entry that differs does so by one spacing, and all go up or all go down."""
    up = down = False
    for part in one.parts:
        for ours, theirs in zip(one.held[part], two.held[part], strict=True):
            entries = (one.store.entries[ours.file], two.store.entries[theirs.file])
            dtype = coarser(entries[0].dtype, entries[1].dtype)
            for _, x, y in _chunks(one, two, ours, theirs, dtype):
                a, b = (np.abs(z[x != y].astype(np.float64)) for z in (x, y))
                up, down = up or bool((b > a).any()), down or bool((b < a).any())
                if (up and down) or (np.abs(a - b) > spacing(np.maximum(a, b), dtype)).any():
                    return False
    return True


@dataclass
class Rounded(Model):
    """A checkpoint as it is compared with another.

    Rows that nobody rewrote are rounded to the coarser of the two types, in which they are equal.
    With a seed, the others are moved at random, as far as rounding could have moved them.
    """

    touched: dict[Where, Touched] = field(default_factory=dict)
    seed: int | None = None

    @classmethod
    def of(cls, model: Model, found: Differences, seed: int | None = None) -> Rounded:
        """A model, for a comparison."""
        own = {item.name: getattr(model, item.name) for item in fields(Model)}
        return cls(**own, touched=found.touched, seed=seed)

    def stored(self, part: str, held: Held) -> Array:
        """A tensor of the file, rounded or moved."""
        out = super().stored(part, held)
        found = self.touched[part, held.names]
        finer = self.store.entries[held.file].dtype != found.dtype
        rng = None
        if self.seed is not None:
            name = "/".join((part, *held.names))
            rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        rows = out.reshape(len(out), -1)
        for start in range(0, len(rows), ROWS):
            some, mask = rows[start : start + ROWS], found.mask(start, start + ROWS)
            if finer:
                some[...] = np.where(mask, some, rounded(some, found.dtype).astype(np.float64))
            if rng is not None:
                noise = rng.uniform(-0.5, 0.5, some.shape)
                noise *= spacing(some, found.dtype)
                noise *= mask
                some += noise
        return out
