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
from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.checkpoint.align import Alignment, FartherError, Known
from segre.checkpoint.alignment import stream_freedom
from segre.checkpoint.kinship import Centred
from segre.checkpoint.layout import Tensors
from segre.checkpoint.match import best_stream, stream_products
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.pairs import Finder, aligned_pairs
from segre.checkpoint.rounding import spacing
from segre.fields.interface import Array

NARROW = 8  # matrices need so many rows and columns
ROWS = 512  # of a change whose inner products are taken
NEARER = 0.8  # of the distance: an alignment that leaves less than this shows that weights moved
STRUCTURE = 1.1  # a change with less is noise ...
MOVED_STRUCTURE = 1.12  # ... and if an alignment, which fits a little, was needed
TABLES = ("embed", "head")


@dataclass(frozen=True)
class Change:
    """The change of the matrices of the layers, in the basis of one of the two."""

    moved: bool  # whether bases or orders had to be changed to see it
    size: float  # relative
    structure: float  # 1 for noise
    zeroed: float  # fraction of numbers that are zero in one and not in the other
    widest: float  # the largest change of a number, in spacings of the coarser type
    untouched: float  # fraction of matrices that are the same in both
    numbers: int  # of all these matrices

    @property
    def is_noise(self) -> bool:
        """Whether every number changed by itself."""
        return self.structure <= (MOVED_STRUCTURE if self.moved else STRUCTURE)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return vars(self)


class _Aligned(Alignment):
    """In the basis in which relatives were found, made best for all weights."""

    def _finder(self) -> Finder:
        first, spec = Centred(), self.one.spec
        if stream_freedom(spec) == "none":
            return first
        inner = np.zeros((spec.d, spec.d))
        for a, b in aligned_pairs(self.one, self.two, first):
            inner += stream_products(spec, a.tensors, b.tensors)
        return Known(best_stream(spec, inner).after(first.basis))


def change(
    one: Model, two: Model, dtype: np.dtype[Any], progress: Progress = no_progress
) -> Change:
    """The change from one to two, in place or in the basis in which it is most like noise.

    Noise is independent in the basis in which it was added: that of the first, or of the second.
    """
    placed = _measured(_in_place(one, two, progress), dtype, moved=False)
    aligned = _measured(_aligned(one, two, progress), dtype, moved=True)
    if aligned.size >= NEARER * placed.size:
        return placed
    back = _measured(_aligned(two, one, progress), dtype, moved=True)
    return min(aligned, back, key=lambda found: found.structure)


def _in_place(one: Model, two: Model, progress: Progress) -> Iterator[tuple[str, Tensors, Tensors]]:
    for done, part in enumerate(one.parts):
        progress("changes", done, len(one.parts))
        yield part, one.part(part), two.part(part)


def _aligned(one: Model, two: Model, progress: Progress) -> Iterator[tuple[str, Tensors, Tensors]]:
    with suppress(FartherError):
        for done, (part, tensors) in enumerate(_Aligned(one, two).parts()):
            progress("changes after alignment", done, len(one.parts))
            yield part, one.part(part), tensors


def _measured(
    parts: Iterator[tuple[str, Tensors, Tensors]], dtype: np.dtype[Any], *, moved: bool
) -> Change:
    size = apart = widest = 0.0
    zeroed = total = untouched = count = 0
    structures = []
    for part, one, two in parts:
        for name in one:
            a, b = (_matrix(name, w[name]) for w in (one, two))
            if part in TABLES or min(a.shape) < NARROW:
                continue
            d = b - a
            size, apart = size + _square(a), apart + _square(d)
            zeroed += int(((a == 0) != (b == 0)).sum())
            total, count = total + a.size, count + 1
            if not d.any():
                untouched += 1
                continue
            structures += [structure(d), structure(d.T)]
            if not moved:
                least = spacing(np.minimum(np.abs(a), np.abs(b)), dtype)
                with np.errstate(divide="ignore", invalid="ignore"):
                    widest = max(widest, float(np.nanmax(np.abs(d) / least)))
    return Change(
        moved,
        (apart / max(size, 1e-300)) ** 0.5,
        _without_ends(structures),
        zeroed / max(total, 1),
        widest,
        untouched / max(count, 1),
        total,
    )


def _square(x: Array) -> float:
    return float(np.vdot(x, x))


def _without_ends(values: list[float]) -> float:
    """The mean without the smallest and the largest eighth."""
    if not values:
        return 1.0
    cut = len(values) // 8
    return float(np.mean(np.sort(values)[cut : len(values) - cut]))


def _matrix(name: str, tensor: Array) -> Array:
    """A tensor as a matrix with what has one input, or one output, in a row."""
    if name == "W_O":
        return np.moveaxis(tensor, -2, 0).reshape(tensor.shape[-2], -1)
    return tensor.reshape(-1, tensor.shape[-1])


def structure(change: Array) -> float:
    """Squares of inner products of different rows, relative to their mean for independent signs.

    >>> rng = np.random.default_rng(0)
    >>> round(structure(rng.standard_normal((200, 300))), 1)
    1.0
    >>> round(structure(rng.standard_normal((200, 1)) @ rng.standard_normal((1, 300))))
    100
    """
    step = max(1, len(change) // ROWS)
    rows = change[::step][:ROWS]
    gram, mean = rows @ rows.T, rows**2 @ (rows**2).T
    np.fill_diagonal(gram, 0)
    np.fill_diagonal(mean, 0)
    expected = float(mean.sum())
    return float((gram**2).sum()) / expected if expected else 1.0
