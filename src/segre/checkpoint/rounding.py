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
ROWS = 4096  # of a table, at a time


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
    """What of a stored tensor was rewritten: whole rows, whole columns, or single entries."""

    dtype: DType  # the coarser of the two types
    rows: Array
    columns: Array
    entries: Array | None = None  # of a vector

    def mask(self, start: int, stop: int) -> Array:
        """Which entries of some rows rounding can have changed."""
        if self.entries is not None:
            return self.entries[start:stop, None]
        return self.rows[start:stop, None] | self.columns


@dataclass(frozen=True)
class Differences:
    """How two checkpoints differ, entry by entry in the same place."""

    touched: dict[tuple[str, tuple[str, ...]], Touched]
    shared: float  # fraction of the entries that are equal, zeros apart
    differing: int
    steps: float  # the largest difference of an entry that nobody rewrote, in spacings
    one_way: bool  # such entries all became smaller, or all became larger

    @property
    def in_place(self) -> bool:
        """Whether the two are in the same basis, as far as one can see."""
        return self.shared >= IN_PLACE

    @property
    def another_rounding(self) -> bool:
        """Whether the same numbers, rounded in another way, would look like this."""
        return self.in_place and self.steps <= 1 and self.one_way


def differences(one: Model, two: Model) -> Differences:
    """Compare two checkpoints of one architecture entry by entry, in the coarser of their types."""
    touched: dict[tuple[str, tuple[str, ...]], Touched] = {}
    count = _Count()
    for part in one.parts:
        found = [
            _compared(one, two, ours, theirs, count)
            for ours, theirs in zip(one.held[part], two.held[part], strict=True)
        ]
        rewritten = any(each.rows.any() or each.columns.any() for each in found)
        for held, each in zip(one.held[part], found, strict=True):
            if each.entries is not None and not rewritten:
                each = Touched(each.dtype, each.rows, each.columns, np.zeros_like(each.entries))
            touched[part, held.names] = each
    steps, one_way = _largest_step(one, two, touched)
    shared = count.equal / count.there if count.there else 1.0
    return Differences(touched, shared, count.differing, steps, one_way)


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
    entries = []
    for start, x, y in _chunks(one, two, ours, theirs, dtype):
        known = (x != 0) | (y != 0)
        alike = known & (x == y)
        for sums, what in ((there, known), (equal, alike)):
            sums[0, start : start + len(x)] = what.sum(axis=1)
            sums[1, : shape[1]] += what.sum(axis=0)
        if len(a.shape) == 1:
            entries.append((known & ~alike)[:, 0])
    count.there += int(there[1].sum())
    count.equal += int(equal[1].sum())
    count.differing += int(there[1].sum() - equal[1].sum())
    moved = equal < IN_PLACE * there
    if len(a.shape) == 1:  # a vector has no rows to go by: it was rewritten as a whole, or not
        every = np.full(shape[0], bool(moved[1, 0]))
        return Touched(dtype, every, np.zeros(1, bool), np.concatenate(entries) | every)
    return Touched(dtype, moved[0, : shape[0]], moved[1, : shape[1]])


def _largest_step(
    one: Model, two: Model, touched: dict[tuple[str, tuple[str, ...]], Touched]
) -> tuple[float, bool]:
    """The largest difference, in spacings, where nobody rewrote; and if all go one way."""
    largest, up, down = 0.0, False, False
    for part in one.parts:
        for ours, theirs in zip(one.held[part], two.held[part], strict=True):
            found = touched[part, ours.names]
            for start, x, y in _chunks(one, two, ours, theirs, found.dtype):
                changed = (x != y) & ~found.mask(start, start + len(x))
                if not changed.any():
                    continue
                a, b = x[changed].astype(np.float64), y[changed].astype(np.float64)
                step = spacing(np.maximum(np.abs(a), np.abs(b)), found.dtype)
                largest = max(largest, float((np.abs(a - b) / step).max()))
                up |= bool((np.abs(b) > np.abs(a)).any())
                down |= bool((np.abs(b) < np.abs(a)).any())
    return largest, not (up and down)


@dataclass
class Rerounded(Model):
    """A checkpoint whose numbers are moved at random, as far as rounding could have moved them."""

    touched: dict[tuple[str, tuple[str, ...]], Touched] = field(default_factory=dict)
    seed: int = 0

    @classmethod
    def of(cls, model: Model, found: Differences, seed: int) -> Rerounded:
        """A model, rounded again where it differs from another."""
        own = {item.name: getattr(model, item.name) for item in fields(Model)}
        return cls(**own, touched=found.touched, seed=seed)

    def stored(self, part: str, held: Held) -> Array:
        """A tensor of the file, moved."""
        out = super().stored(part, held)
        found = self.touched[part, held.names]
        name = "/".join((part, *held.names))
        rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        rows = out.reshape(len(out), -1)
        for start in range(0, len(rows), ROWS):
            some = rows[start : start + ROWS]
            noise = rng.uniform(-0.5, 0.5, some.shape)
            noise *= spacing(some, found.dtype)
            noise *= found.mask(start, start + len(some))
            some += noise
        return out
