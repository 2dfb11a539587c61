"""Two checkpoints, block by block: their difference, compared with the effect of rounding.

The effect of rounding is measured: each checkpoint is rounded again, at random, and compared with
itself by the same code. Copies of one function that were rounded once differ by at most the two
effects together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.checkpoint.compare import Measure, measures
from segre.checkpoint.limits import HALF, SHARED, Limits
from segre.checkpoint.match import (
    aligned_pairs,
    match_layer,
    match_sign,
    match_stream,
    unembedding_products,
)
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.reduce import Reduced, reduced
from segre.checkpoint.rounding import Differences, Rounded
from segre.checkpoint.witness import Witness
from segre.fields.interface import Array
from segre.symmetry.compact import Elements, act, of_stream

NEAR = 4.0  # rounding errors by which gains of rotary planes may differ and count as equal
ARITHMETIC = 1e-12  # of the size of a member: what double precision does


@dataclass(frozen=True)
class Block:
    """Invariants of one kind in one part, member by member: differences and rounding."""

    part: str
    kind: str
    member: str
    differences: Array
    rounding: Array
    sizes: Array
    entries: int  # numbers in one member
    first: int  # the number of the first member
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
    def differs(self) -> bool:
        """Whether rounding certainly cannot explain it."""
        return self.excess > self.limits.certain

    @property
    def seen(self) -> float:
        """The smallest relative change of the whole block that would not be taken for rounding."""
        return self.limit * self.sensitivity

    @property
    def ratio(self) -> float:
        """The difference divided by what rounding can explain, for all members together."""
        top, bottom = np.linalg.norm(self.differences), np.linalg.norm(self.rounding)
        return float(top / bottom) if bottom else (np.inf if top else 0.0)

    @property
    def ratios(self) -> Array:
        """The same for every member."""
        safe = np.where(self.rounding > 0, self.rounding, 1.0)
        alone = np.where(self.differences > 0, np.inf, 0.0)
        return np.where(self.rounding > 0, self.differences / safe, alone)

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
        return self.part if self.part in ("embed", "head") else f"layer {self.part}"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        worst = self.worst
        return {
            "part": self.part,
            "kind": self.kind,
            "difference": self.difference,
            "rounding": self.sensitivity,
            "ratio": self.ratio,
            "limit": self.limit,
            "members": len(self.sizes),
            "worst": {
                "name": self.name,
                "ratio": float(self.ratios[worst]),
                "limit": self.limit_of_one,
            },
        }


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


def block(
    part: str,
    apart: Measure,
    effects: list[Measure],
    draws: int,
    floor: float,
    width: int,
    limits: Limits,
) -> Block:
    """A block from a difference and the effects of rounding, which add up as squares.

    Of several draws of the effects the mean of the squares counts.

    `floor`, relative to the size of a member, is always attributed to rounding.
    """
    squares = sum(effect.differences**2 for effect in effects) / draws
    rounding = np.sqrt(squares + (floor * apart.sizes) ** 2)
    fields = (apart.differences, rounding, apart.sizes, apart.entries, apart.first)
    return Block(part, apart.kind, apart.member, *fields, width, limits)


@dataclass(frozen=True)
class Side:
    """One of two checkpoints being compared, and several randomly rounded copies of it."""

    exact: Rounded
    moved: tuple[Rounded, ...]

    @classmethod
    def of(cls, model: Model, found: Differences, seed: int = 0, draws: int = 1) -> Side:
        """A checkpoint, for a comparison."""
        moved = (Rounded.of(model, found, seed, draw) for draw in range(draws))
        return cls(Rounded.of(model, found), tuple(moved))


def compared_blocks(
    one: Side,
    two: Side,
    found: Differences,
    turns: Witness,
    progress: Progress = no_progress,
) -> Iterator[tuple[Reduced, Reduced, list[Block]]]:
    """Part by part: both, reduced, in the basis of `turns`, and their blocks.

    What rounding does is the mean of all draws.
    """
    spec, draws = one.exact.spec, len(one.moved)
    unit = max(one.exact.roundoff(), two.exact.roundoff())
    limits = Limits.of(unit)
    again = [[_Again(side.exact, x, found, NEAR * unit) for x in side.moved] for side in (one, two)]
    rounding: list[list[Measure]] = []  # its effects on the part at hand

    def effects(exact: Reduced, known: Witness | None, repeats: list[_Again]) -> None:
        for x in repeats:
            moved = x.part(exact, known)
            rounding.append(list(measures(spec, exact, moved)))
            moved.tensors.clear()

    pairs = aligned_pairs(one.exact, two.exact, turns, lambda a: effects(a, None, again[0]))
    for done, (a, b) in enumerate(pairs):
        progress("comparing", done, len(one.exact.parts))
        apart = list(measures(spec, a, b))
        if a.part in ("embed", "head"):
            a.tensors.clear()  # tables are large, and not needed any more
        effects(b, turns, again[1])
        each = list(zip(apart, *rounding, strict=True))
        rounding.clear()
        floor = ARITHMETIC if found.edited or unit > HALF else max(ARITHMETIC, unit / 4)
        yield (
            a,
            b,
            [block(a.part, first, rest, draws, floor, spec.d, limits) for first, *rest in each],
        )


class _Again:
    """A checkpoint rounded again, part by part, in the basis in which it is compared."""

    def __init__(self, exact: Rounded, moved: Rounded, found: Differences, near: float) -> None:
        self.spec, self.parts, self.near = exact.spec, reduced(moved), near
        self.basis: Elements = {}
        self.in_place = found.in_place
        self.unembedded = unembedding_products(exact, moved)

    def part(self, exact: Reduced, known: Witness | None) -> Reduced:
        """The next part, like `exact`; `known` has the basis and the orders that it has."""
        out = next(self.parts)
        w = out.tensors
        if exact.part == "embed" and self.in_place:
            self.basis = match_sign(self.spec, exact.tensors, w)
        elif exact.part == "embed":
            unembedded = self.unembedded
            if unembedded is not None and known is not None and "stream" in known.basis:
                stream = of_stream(self.spec)["stream"]
                unembedded = stream.on(known.basis["stream"], unembedded)
            self.basis = match_stream(self.spec, exact.tensors, w, unembedded)
        act(self.spec, exact.part, self.basis, w, stream=True, owned=True)
        if exact.part == "head" and known is not None:
            act(self.spec, "head", known.head, w, stream=True)
        elif exact.part not in ("embed", "head"):
            layer = {} if known is None else known.layers[exact.part]
            match_layer(self.spec, exact.part, exact.tensors, w, self.near, layer)
        return out
