"""What kind of change leads from one checkpoint to another of the same origin?

Noise, and rounding, change every number by itself: the signs of the changes are independent.
Training changes them together, since one gradient is a sum of a few products. With the sizes of
the changes given and independent signs, the squares of the inner products of two rows of a change
have a known mean; `structure` is what they are, relative to it, rows and columns alike. It is 1
for noise of any kind and size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from segre.checkpoint.align import Alignment, FartherError
from segre.checkpoint.changes import as_matrix
from segre.checkpoint.layout import Tensors
from segre.checkpoint.match import Finder, aligned_pairs, best_stream, stream_products
from segre.checkpoint.model import Model, Progress, no_progress, unit_roundoff
from segre.checkpoint.rounding import spacing
from segre.fields.interface import Array
from segre.symmetry.compact import after, stream_freedom

NARROW = 8  # matrices need so many rows and columns
ROWS = 512  # of a change whose inner products are taken
NEARER = 0.8  # of the distance: an alignment that leaves less than this shows that weights moved
STRUCTURE = 1.1  # a change with less is noise ...
MOVED_STRUCTURE = 1.12  # ... and if an alignment, which fits a little, was needed
ROUNDINGS = 4  # of a number: a matrix that changed by less, in relative size, was only rounded
TABLES = ("embed", "head")


@dataclass(frozen=True)
class Change:
    """The change of the matrices of the layers, or else of the tables, in the basis of one."""

    moved: bool  # whether bases or orders had to be changed to see it
    size: float  # relative
    structure: float  # 1 for noise
    zeroed: float  # fraction of numbers that are zero in one and not in the other
    widest: float  # the largest change of a number, in spacings of the coarser type ...
    vectors: float  # ... and of a number in a vector or a narrow matrix
    layers: int  # matrices of layers that differ ...
    tables: int  # ... and of embeddings and heads
    numbers: int  # that were looked at
    distance: float  # of layers and tables together, relative

    @property
    def is_noise(self) -> bool:
        """Whether the values changed independently of each other."""
        return self.structure <= (MOVED_STRUCTURE if self.moved else STRUCTURE)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return vars(self)


class _Aligned(Alignment):
    """The basis in which relatives were found, improved for all weights."""

    def _finder(self) -> Finder:
        first, spec = Finder(centred=True), self.one.spec
        if stream_freedom(spec) == "none":
            return first
        inner = np.zeros((spec.d, spec.d))
        for a, b in aligned_pairs(self.one, self.two, first):
            inner += stream_products(spec, a.part, a.tensors, b.tensors)
        return Finder(after(spec, best_stream(spec, inner), first.basis))


def change(
    one: Model, two: Model, dtype: np.dtype[Any], progress: Progress = no_progress
) -> Change:
    """The change from one to two, in place or in the basis in which it is most like noise.

    Noise is independent in the basis in which it was added: that of the first, or of the second.
    """
    placed = _measured(one, two, dtype, progress, moved=False)
    aligned = _measured(one, two, dtype, progress, moved=True)
    if aligned.distance >= NEARER * placed.distance:
        return placed
    back = _measured(two, one, dtype, progress, moved=True)
    return min(aligned, back, key=lambda found: found.structure)


def _pairs(
    one: Model, two: Model, progress: Progress, *, moved: bool
) -> Iterator[tuple[str, Tensors, Tensors]]:
    """The parts of both, as they are or aligned; none if an alignment leads away."""
    others = _Aligned(one, two).parts() if moved else ((part, two.part(part)) for part in one.parts)
    with suppress(FartherError):
        for done, (part, tensors) in enumerate(others):
            progress("changes after alignment" if moved else "changes", done, len(one.parts))
            yield part, one.part(part), tensors


def _measured(
    one: Model, two: Model, dtype: np.dtype[Any], progress: Progress, *, moved: bool
) -> Change:
    """Of the layers; of the tables, if no matrix of a layer changed.

    Matrices that were only rounded say nothing of what was done to others.
    """
    layers, tables, vectors = (_Sums(dtype, moved) for _ in range(3))
    for part, ours, theirs in _pairs(one, two, progress, moved=moved):
        for name in ours:
            a, b = (as_matrix(name, w[name]) for w in (ours, theirs))
            wide = min(a.shape) >= NARROW
            (vectors if not wide else tables if part in TABLES else layers).add(a, b)
    if not layers.structures and not tables.structures:
        layers.structures, tables.structures = layers.rounded, tables.rounded
    found = layers if layers.structures else tables
    return Change(
        moved,
        (found.apart / max(found.size, 1e-300)) ** 0.5,
        _without_ends(found.structures),
        found.zeroed / max(found.numbers, 1),
        max(layers.widest, tables.widest),
        vectors.widest,
        len(layers.structures) // 2,
        len(tables.structures) // 2,
        found.numbers,
        ((layers.apart + tables.apart) / max(layers.size + tables.size, 1e-300)) ** 0.5,
    )


@dataclass
class _Sums:
    """Of several matrices."""

    dtype: np.dtype[Any]  # the coarser type
    moved: bool
    size: float = 0.0
    apart: float = 0.0
    widest: float = 0.0
    zeroed: int = 0
    numbers: int = 0
    structures: list[float] = field(default_factory=list)
    rounded: list[float] = field(default_factory=list)  # of changes no larger than rounding

    def add(self, one: Array, two: Array) -> None:
        """Count a matrix; in place, also how many spacings of the type the largest change is."""
        change = two - one
        self.size += _square(one)
        self.apart += _square(change)
        self.zeroed += int(((one == 0) != (two == 0)).sum())
        self.numbers += one.size
        if not change.any():
            return
        limit = ROUNDINGS * unit_roundoff(self.dtype)
        small = _square(change) <= limit**2 * _square(one)
        kept = self.rounded if small else self.structures
        kept += [structure(change), structure(change.T)]
        if not self.moved:
            steps = spacing(np.maximum(np.abs(one), np.abs(two)), self.dtype)
            there = steps > 0
            self.widest = max(self.widest, float((np.abs(change)[there] / steps[there]).max()))


def _square(x: Array) -> float:
    return float(np.vdot(x, x))


def _without_ends(values: list[float]) -> float:
    """The mean without the smallest and the largest eighth."""
    if not values:
        return 1.0
    cut = len(values) // 8
    return float(np.mean(np.sort(values)[cut : len(values) - cut]))


def structure(change: Array) -> float:
    """Squares of inner products of different rows, relative to their mean for independent signs.

    >>> rng = np.random.default_rng(0)
    >>> round(structure(rng.standard_normal((200, 300))), 1)
    1.0
    >>> structure(rng.standard_normal((200, 1)) @ rng.standard_normal((1, 300))) > 50
    True
    """
    step = max(1, len(change) // ROWS)
    rows = change[::step][:ROWS]
    gram, mean = rows @ rows.T, rows**2 @ (rows**2).T
    np.fill_diagonal(gram, 0)
    np.fill_diagonal(mean, 0)
    expected = float(mean.sum())
    return float((gram**2).sum()) / expected if expected else 1.0
