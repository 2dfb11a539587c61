"""Two checkpoints, block by block: their difference, compared with the effect of rounding.

The effect of rounding is measured: each checkpoint is rounded again, at random, and compared with
itself by the same code. Copies of one function that were rounded once differ by at most the two
effects together, or by chance a little more. In full precision there is room for many roundings. In
half precision there is not: a few steps of training change as much as rounding does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from segre.checkpoint.compare import Measure, measures
from segre.checkpoint.layout import Tensors, place_of
from segre.checkpoint.match import Finder, Follower, match_layer, match_sign, match_stream
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.outputs import relative
from segre.checkpoint.reduce import Reduced, reduced
from segre.checkpoint.rounding import Differences, Rounded
from segre.fields.interface import Array
from segre.json_data import stated
from segre.symmetry.compact import Elements, act, of_stream
from segre.transformer.spec import Transformer

NEAR = 4.0  # rounding errors by which gains of rotary planes may differ and count as equal
ARITHMETIC = 1e-12  # of the size of a member: what double precision does
HALF = 2.0**-12  # coarser types than this are half precision, or less
CHANCE = 3.0  # by how much chance raises a ratio of two effects on n numbers, times sqrt(n)
SHARED = 4  # a gain's rounding moves a whole column: this many numbers per column are independent


@dataclass(frozen=True)
class Limits:
    """By how many times the effect of rounding a block, or one of its members, may differ."""

    together: float  # all members of a matrix or table: more is doubtful
    alone: float  # one member, or a vector: few numbers, whose errors often go together
    certain: float  # this many times either limit is a difference

    @classmethod
    def of(cls, roundoff: float) -> Limits:
        """The limits for a storage type."""
        return cls(1.15, 4.0, 2.0) if roundoff > HALF else cls(16.0, 32.0, 4.0)

    def limit(self, numbers: float, *, many: bool) -> float:
        """The limit for the given number of entries; `many` for a whole matrix or table."""
        return (self.together if many else self.alone) * (1 + CHANCE / sqrt(numbers))


@dataclass(frozen=True, kw_only=True)
class Block(Measure):
    """Invariants of one kind in one part, member by member: differences and rounding."""

    part: str
    rounding: Array
    width: int  # of the stream
    limits: Limits

    @property
    def excess(self) -> float:
        """The difference of the block, or of its worst member, relative to the limit."""
        return max(self.ratio / self.limit, float(self.ratios.max()) / self.limit_of_one)

    @property
    def limit_of_one(self) -> float:
        """The limit of the ratio of one member."""
        return self.limits.limit(self.entries, many=False)

    @property
    def limit(self) -> float:
        """The limit of the ratio of all members together."""
        squares = self.rounding**2
        members = float(squares.sum() ** 2 / (squares**2).sum()) if squares.any() else 1.0
        numbers = min(self.entries * members, SHARED * self.width)
        return self.limits.limit(numbers, many=self.matrix)

    @property
    def agrees(self) -> bool:
        """Whether rounding can explain the difference."""
        return self.excess <= 1

    @property
    def ratio(self) -> float:
        """The difference divided by what rounding can explain, for all members together."""
        return relative(*(float(np.linalg.norm(x)) for x in (self.differences, self.rounding)))

    @property
    def ratios(self) -> Array:
        """The same for every member."""
        alone = np.where(self.differences > 0, np.inf, 0.0)
        return np.divide(self.differences, self.rounding, out=alone, where=self.rounding > 0)

    @property
    def worst(self) -> int:
        """The member that differs most relative to what rounding can explain."""
        return int(self.ratios.argmax())

    @property
    def difference(self) -> float:
        """Of all members, relative to their size."""
        return self._relative(self.differences)

    @property
    def sensitivity(self) -> float:
        """The effect of rounding, relative to the size."""
        return self._relative(self.rounding)

    @property
    def most(self) -> tuple[float, float]:
        """Difference and effect of rounding of the worst member, relative to its own size."""
        at = np.s_[self.worst : self.worst + 1]
        return self._relative(self.differences, at), self._relative(self.rounding, at)

    def _relative(self, values: Array, at: slice = np.s_[:]) -> float:
        size = float(max(np.linalg.norm(self.sizes[at]), np.linalg.norm(self.rounding[at])))
        return float(np.linalg.norm(values[at])) / max(size, 1e-300)

    @property
    def title(self) -> str:
        """As in reports: layer 3, head 2, OV. The member that differs most."""
        return f"{self.place}, {self.name}"

    @property
    def name(self) -> str:
        """The member that differs most, within the part."""
        return self.member.format(self.first + self.worst)

    @property
    def matrix(self) -> bool:
        """Whether these are the members of matrices or tables, not single vectors."""
        return len(self.sizes) > 1 and not self.kind.startswith("b_")

    @property
    def place(self) -> str:
        """The part, as in reports: layer 3."""
        return place_of(self.part)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        worst = {"ratio": float(self.ratios[self.worst]), "limit": self.limit_of_one}
        made = {"rounding": self.sensitivity, "members": len(self.sizes)}
        names = "part kind difference ratio limit"
        return stated(self, names, **made, worst=worst | {"name": self.name})


def agreed(blocks: Sequence[Block]) -> str:
    """That all blocks agree, in words, with what comes nearest to its limit."""
    nearest = max(blocks, key=lambda block: block.excess)
    ratio, limit = nearest.ratio, nearest.limit
    name = f"{nearest.place}, {nearest.kind}"
    if ratio / limit < nearest.excess:  # one member is nearer to its limit than all together
        name, ratio, limit = nearest.title, nearest.ratios[nearest.worst], nearest.limit_of_one
    return (
        f"all {len(blocks)} blocks agree to within rounding; nearest to its limit is "
        f"{name}: {ratio:.2g} times the effect of rounding, where {limit:.2g} is allowed"
    )


def copies(model: Model, found: Differences, seed: int = 0, draws: int = 1) -> list[Rounded]:
    """A checkpoint prepared for a comparison, and several copies of it, rounded at random."""
    moved = (Rounded.of(model, found, seed, draw) for draw in range(draws))
    return [Rounded.of(model, found), *moved]


@dataclass
class _Again(Finder):
    """Finds what rounding can change of elements, if a model is rounded again."""

    known: Finder = field(default_factory=Finder)

    def stream(
        self, spec: Transformer, one: Tensors, two: Tensors, unembedded: Array | None
    ) -> Elements:
        """The basis of the stream; `one` is in the known one."""
        if self.in_place:
            return match_sign(spec, one, two)
        if unembedded is not None and "stream" in self.known.basis:
            unembedded = of_stream(spec)["stream"].on(self.known.basis["stream"], unembedded)
        return match_stream(spec, one, two, unembedded)

    def units(self, spec: Transformer, _one: Tensors, two: Tensors) -> None:
        """The known units of the head."""
        act(spec, "head", self.known.head, two, stream=True)

    def layer(self, spec: Transformer, part: str, one: Tensors, two: Tensors) -> None:
        """Known orders and bases, with new phases and signs."""
        match_layer(spec, part, one, two, self.near, self.known.layers.get(part, {}))


def compared_blocks(
    one: Sequence[Rounded],
    two: Sequence[Rounded],
    found: Differences,
    turns: Finder,
    progress: Progress = no_progress,
) -> Iterator[tuple[Reduced, Reduced, list[Block]]]:
    """Part by part: both of two `copies`, reduced, in the basis of `turns`, and their blocks.

    Effects of rounding add up as squares; of several draws, the mean of the squares counts. A small
    share of the size of a member is always attributed to rounding.
    """
    (first, *ours), (last, *theirs), spec = one, two, one[0].spec
    unit = max(first.roundoff(), last.roundoff())
    limits = Limits.of(unit)
    floor = ARITHMETIC if found.edited or unit > HALF else max(ARITHMETIC, unit / 4)

    def again(exact: Rounded, moved: list[Rounded], known: Finder) -> list[Follower]:
        near = NEAR * unit
        every = [_Again(in_place=found.in_place, near=near, known=known) for _ in moved]
        return [Follower(exact, x, finder) for x, finder in zip(moved, every, strict=True)]

    def effects(exact: Reduced, copies: list[Follower]) -> Iterator[list[Measure]]:
        for copy in copies:
            moved = copy.part(exact)
            yield list(measures(spec, exact, moved))
            moved.tensors.clear()

    once, twice = again(first, ours, Finder()), again(last, theirs, turns)
    second = Follower(first, last, turns)
    for done, a in enumerate(reduced(first)):
        rounding = list(effects(a, once))  # before the same part of the second is read
        b = second.part(a)
        progress("comparing", done, len(first.parts))
        apart = list(measures(spec, a, b))
        if a.part in ("embed", "head"):
            a.tensors.clear()  # tables are large, and not needed any more
        rounding += effects(b, twice)
        blocks = []
        for measure, *every in zip(apart, *rounding, strict=True):
            squares = sum(effect.differences**2 for effect in every) / len(ours)
            by = np.sqrt(squares + (floor * measure.sizes) ** 2)
            own = {"part": a.part, "rounding": by, "width": spec.d, "limits": limits}
            blocks.append(Block(**vars(measure), **own))
        yield a, b, blocks
