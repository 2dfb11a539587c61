"""The possible effect of rounding on a checkpoint, found by rounding its values again at random.

A number in a file stands for all numbers that round to it. Moving each stored number up or down by
the average rounding error shows the effect of rewriting the file on any quantity: a product of a
head, an output.

Rounding explains only values that were rewritten. If two files agree in all but a few places, those
few were changed: rounding explains no more than their last digit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from math import prod

import numpy as np
import numpy.typing as npt

from segre.checkpoint.dtypes import DType, float_info, rounded
from segre.checkpoint.layout import Held, Tensors
from segre.checkpoint.model import Model, unit_roundoff
from segre.checkpoint.outputs import Running
from segre.checkpoint.sizes import row_blocks
from segre.checkpoint.store import Entry
from segre.fields.interface import Array
from segre.transformer.forward import Tokens

IN_PLACE = 0.25  # rows that share at least this much, entry by entry, were not rewritten
FEW = 0.05  # other entries of a tensor that differ are few, if they are less than this
EXPONENT = 0x7FF << 52  # the bits of a double that hold its exponent
SINGLE = 1e-4  # and single ones, if less than this
ROOT_MEAN_SQUARE = 12**-0.5  # of a number that is evenly distributed within half a spacing
SLAB = 1 << 18  # numbers that are compared at a time
SIGN = np.uint64(1 << 63)  # the bit of a double that holds its sign
SHIFTS = np.arange(64, dtype=np.uint64)[:, None]

Where = tuple[str, str]  # a part, and what a tensor of it holds


def spacing(values: Array, dtype: DType) -> Array:
    """The distance between neighbouring numbers of a type, at each value; 0 at 0.

    >>> spacing(np.array([1.0, 3.0, 0.0]), np.dtype("float16")).tolist()
    [0.0009765625, 0.001953125, 0.0]
    """
    info = float_info(dtype)
    out = (np.asarray(values, np.float64).view(np.int64) & EXPONENT).view(np.float64)
    np.maximum(out, 2.0 ** int(info.minexp), out=out)
    out *= 2.0 ** -int(info.nmant)
    out[values == 0] = 0
    return np.asarray(out)


def flip_at_random(rng: np.random.Generator, values: Array) -> None:
    """Give doubles random signs, in place: one random word has those of 64 of them."""
    words = rng.integers(2**64, size=-(-values.size // 64), dtype=np.uint64)
    signs = np.left_shift(words, SHIFTS).reshape(-1)[: values.size].reshape(values.shape)
    signs &= SIGN
    values.view(np.uint64)[...] ^= signs


@dataclass
class Touched:
    """The rewritten part of a stored tensor: whole rows, whole columns, and single entries."""

    dtype: DType  # the coarser of the two types
    rows: Array
    columns: Array
    entries: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # flat, elsewhere
    elsewhere: int = 0  # how many entries there are in neither such rows nor such columns

    @classmethod
    def all_of(cls, entry: Entry, dtype: DType) -> Touched:
        """A tensor of which rounding can have changed every entry."""
        return cls(dtype, np.ones(entry.shape[0], bool), np.ones(prod(entry.shape[1:]), bool))

    @property
    def lines(self) -> bool:
        """Whether whole rows or columns were rewritten."""
        return bool(self.rows.any() or self.columns.any())

    @property
    def loose(self) -> bool:
        """Whether more than a few entries differ outside of what was rewritten."""
        return len(self.entries) > FEW * self.elsewhere

    @property
    def whole(self) -> bool:
        """Whether rounding can have changed every entry."""
        return self.loose or bool(self.rows.all()) or bool(self.columns.all())

    def mask(self, start: int, stop: int) -> Array:
        """Which entries of some rows rounding can have changed."""
        width = len(self.columns)
        out = self.rows[start:stop, None] | self.columns | self.loose
        if not self.loose and len(self.entries):
            first, last = np.searchsorted(self.entries, (start * width, stop * width))
            out.reshape(-1)[self.entries[first:last] - start * width] = True
        return np.asarray(out)


@dataclass(frozen=True)
class Differences:
    """How two checkpoints differ, entry by entry in the same place."""

    touched: dict[Where, Touched]
    shared: float  # fraction of the entries that are equal, zeros apart
    differing: int

    @property
    def in_place(self) -> bool:
        """Whether the two appear to be in the same basis."""
        return self.shared >= IN_PLACE

    @property
    def edited(self) -> bool:
        """Whether the files are equal except for single entries, which were not rounded."""
        found = self.touched.values()
        few = max(1.0, SINGLE * sum(x.elsewhere for x in found))
        kept = not any(x.lines for x in found)
        return kept and sum(len(x.entries) for x in found) <= few

    @property
    def stray(self) -> int:
        """Entries of matrices that differ among others that are equal."""
        return sum(len(x.entries) for x in self.touched.values() if len(x.columns) > 1)


def all_rewritten(model: Model) -> Differences:
    """What is known of a checkpoint that has nothing in common with the other."""
    touched = {
        (part, x.label): Touched.all_of(entry, entry.dtype) for part, x, entry in model.files
    }
    return Differences(touched, 0.0, model.store.parameters)


def differences(one: Model, two: Model) -> Differences:
    """Compare two checkpoints in one form entry by entry, in the coarser of their types."""
    touched: dict[Where, Touched] = {}
    there = equal = 0
    for part in one.parts:
        for ours, theirs in zip(one.held[part], two.held[part], strict=True):
            found, known, alike = _compared(one, two, ours, theirs)
            touched[part, ours.label] = found
            there, equal = there + known, equal + alike
    shared = equal / there if there else 1.0
    for part in one.parts:  # vectors are short, and often equal by chance: they go with matrices
        own = [found for (where, _), found in touched.items() if where == part]
        if shared < IN_PLACE or any(x.lines for x in own):
            for found in own:
                found.rows |= len(found.columns) == 1
    return Differences(touched, shared, there - equal)


def _compared(one: Model, two: Model, ours: Held, theirs: Held) -> tuple[Touched, int, int]:
    """What of a tensor was rewritten; how many entries are not zero, and how many agree."""
    files = ((one.store, ours.file), (two.store, theirs.file))
    entry, dtype = (
        one.store.entries[ours.file],
        max((store.entries[file].dtype for store, file in files), key=unit_roundoff),
    )
    out = Touched.all_of(entry, dtype)
    if ours.meaning != theirs.meaning:
        return out, entry.size, 0
    height, width = len(out.rows), len(out.columns)

    def chunks() -> Iterator[tuple[slice, Array, Array]]:
        """Rows of both files, in one type."""
        for start, stop in row_blocks(height, entry.size, SLAB):
            x, y = (rounded(store.rows(file, start, stop), dtype) for store, file in files)
            yield np.s_[start:stop], x, y

    there, equal = ((np.zeros(height, int), np.zeros(width, int)) for _ in range(2))
    for some, x, y in chunks():
        known = (x != 0) | (y != 0)
        for (by_row, by_column), what in ((there, known), (equal, known & (x == y))):
            found = np.count_nonzero(what)
            if found in (0, what.size):  # all or none: nothing to add up
                by_row[some] = width if found else 0
                by_column += len(x) if found else 0
            else:
                by_row[some] = what.sum(axis=1)
                by_column += what.sum(axis=0)
    out.rows, out.columns = (
        same < IN_PLACE * all_ for same, all_ in zip(equal, there, strict=True)
    )
    counts = int(there[1].sum()), int(equal[1].sum())
    out.elsewhere = int((~out.rows).sum() * (~out.columns).sum())
    if out.elsewhere and counts[0] > counts[1]:
        strays = [
            np.flatnonzero((x != y) & ~out.rows[some, None] & ~out.columns) + some.start * width
            for some, x, y in chunks()
        ]
        out.entries = np.concatenate(strays)
    return out, *counts


@dataclass
class Rounded(Model):
    """A checkpoint, prepared for comparison with another.

    Rows that were not rewritten are rounded to the coarser of the two types, in which they are
    equal. With a seed, the others are perturbed at random by as much as rounding could have changed
    them.
    """

    touched: dict[Where, Touched] = field(default_factory=dict)
    seed: int | None = None
    draw: int = 0  # of several: the first moves all numbers as far as rounding does on average
    running: Running | None = None  # runs on every part that is read
    ahead: tuple[str, Tensors] | None = None  # the part that it runs on

    @classmethod
    def of(
        cls, model: Model, found: Differences, seed: int | None = None, draw: int = 0
    ) -> Rounded:
        """A model, for a comparison."""
        own = {item.name: getattr(model, item.name) for item in fields(Model)}
        return cls(**own, touched=found.touched, seed=None if found.edited else seed, draw=draw)

    @property
    def as_it_is(self) -> bool:
        """Whether nothing is rounded, perturbed or multiplied."""
        types = (entry.dtype == self.touched[part, x.label].dtype for part, x, entry in self.files)
        return self.seed is None and not self.factors and all(types)

    def run(self, tokens: Tokens) -> Running:
        """Its outputs, computed while its parts are read for the comparison."""
        self.running = Running(self, tokens)
        return self.running

    def part(
        self, part: str, names: Iterable[str] | None = None, dtype: npt.DTypeLike = np.float64
    ) -> Tensors:
        """The tensors of a part, rounded or moved."""
        if self.ahead is not None and self.ahead[0] == part and dtype == np.float64:
            read = self.ahead[1]
            return dict(read) if names is None else {n: read[n] for n in names if n in read}
        out = super().part(part, names, dtype)
        if names is None and self.running is not None and self.ahead is None:
            self.ahead = (part, out)
            self.running.part(part)
            self.ahead = None
        return out

    def stored(self, part: str, held: Held, dtype: npt.DTypeLike = np.float64) -> Array:
        """A tensor of the file, rounded or moved."""
        out = super().stored(part, held)
        found = self.touched[part, held.label]
        finer = self.store.entries[held.file].dtype != found.dtype
        if self.seed is None and not finer:
            return out.astype(dtype, copy=False)
        rng = None
        if self.seed is not None:
            name = zlib.crc32(f"{part}/{held.label}".encode())
            rng = np.random.default_rng([self.seed, name, *([self.draw] * (self.draw > 0))])
        rows = out.reshape(len(out), -1)
        whole = found.whole
        for start, stop in row_blocks(len(rows), rows.size):
            some, mask = rows[start:stop], None if whole else found.mask(start, stop)
            if finer and mask is not None:
                some[...] = np.where(mask, some, rounded(some, found.dtype).astype(np.float64))
            if rng is not None:
                noise = spacing(some, found.dtype)
                if self.draw:
                    noise *= rng.uniform(-0.5, 0.5, noise.shape)
                else:  # as far as on average: few that go up and down alike would cancel
                    noise *= ROOT_MEAN_SQUARE
                    flip_at_random(rng, noise)
                if mask is not None and not mask.all():
                    noise *= mask
                some += noise
        return out.astype(dtype, copy=False)
