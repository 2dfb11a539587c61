"""The result of comparing two checkpoints: the verdict and its evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np

from segre.checkpoint.dtypes import DType, dtype_name
from segre.checkpoint.evidence import Block
from segre.checkpoint.witness import Witness
from segre.finding import Status, Unbounded
from segre.json_data import stated
from segre.shown import Tabular

Verdict = Literal[
    "identical",
    "same function",
    "same up to bf16 rounding",
    "same up to fp16 rounding",
    "same up to fp8 rounding",
    "same on common tokens",
    "different",
    "undecided",
]
# By type, if its rounding shows in outputs: how it is called.
_ROUNDED = {"BF16": "bf16", "F16": "fp16", "F8_E4M3": "fp8", "F8_E5M2": "fp8"}


def same_up_to(dtype: DType) -> Verdict:
    """The verdict on two checkpoints that differ by no more than rounding to a type.

    >>> same_up_to(np.dtype("float16")), same_up_to(np.dtype("float32"))
    ('same up to fp16 rounding', 'same function')
    """
    known = _ROUNDED.get(dtype_name(dtype))
    return "same function" if known is None else cast("Verdict", f"same up to {known} rounding")


class Judged(Unbounded, Tabular):
    """A verdict on two checkpoints, with the reason for it."""

    verdict: str
    reason: str

    @property
    def value(self) -> str:
        """The verdict."""
        return self.verdict

    @property
    def status(self) -> Status:
        """Equality of files is exact; everything else is measured and compared with rounding."""
        return "exact" if self.verdict == "identical" else "measured"

    @property
    def how(self) -> str:
        """The evidence for the verdict."""
        return self.reason


@dataclass(frozen=True)
class Comparison(Judged):
    """The verdict on two checkpoints, and its evidence."""

    verdict: Verdict
    reason: str
    blocks: tuple[Block, ...] = ()
    outputs: float | None = None  # largest difference of outputs, relative
    outputs_tolerance: float | None = None
    roundoff: float | None = None
    witness: Witness | None = None
    differing_entries: int | None = None  # that are not the same in both files
    tokens: int | None = None  # compared are the first so many tokens; None: all
    reduced: tuple[str, ...] = ()  # how both were brought to one design, in words
    type: str = ""  # the coarsest type of a weight

    @property
    def same(self) -> bool:
        """Whether the two are the same function, up to rounding, on the tokens that both have."""
        return self.verdict not in ("different", "undecided")

    @property
    def rounding(self) -> str | None:
        """The type whose rounding may show in outputs, of two that are the same: bf16."""
        return _ROUNDED.get(self.type) if self.same else None

    @property
    def said(self) -> str:
        """The verdict in words: same on the first 32,000 tokens."""
        if self.tokens is None or not self.same:
            return self.verdict
        rounding = f", up to {self.rounding} rounding" if self.rounding else ""
        return f"same on the first {self.tokens:,} tokens{rounding}"

    @property
    def rounded(self) -> bool:
        """Whether one file is the other, rounded to a coarser type."""
        return self.same and self.tokens is None and self.differing_entries == 0

    @property
    def first(self) -> Block | None:
        """The first block that differs."""
        return next(iter(self.differing), None)

    @property
    def differing(self) -> tuple[Block, ...]:
        """The blocks that differ by more than rounding can explain."""
        return tuple(block for block in self.blocks if not block.agrees)

    @property
    def sensitivity(self) -> tuple[float, float]:
        """The relative change that is detected in a typical and in the least sensitive block.

        Files that are equal after rounding one of them do not show what the rounding removed.
        """
        if self.rounded and self.roundoff is not None:
            return 2 * self.roundoff, 2 * self.roundoff
        seen = [block.limit * block.sensitivity for block in self.blocks if block.matrix]
        return (float(np.median(seen)), float(np.max(seen))) if seen else (0.0, 0.0)

    @property
    def worst(self) -> Block | None:
        """The block nearest to its limit, or furthest beyond it."""
        return max(self.blocks, key=lambda block: block.excess, default=None)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        typical, coarsest = self.sensitivity
        names = "verdict same rounding reduced reason tokens roundoff differing_entries differing"
        return stated(
            self,
            f"{names} worst",
            outputs={"difference": self.outputs, "tolerance": self.outputs_tolerance},
            blocks=len(self.blocks),
            sensitivity={"typical": typical, "coarsest": coarsest},
        )


@dataclass(frozen=True)
class Check(Unbounded, Tabular):
    """All blocks of two checkpoints, compared in the basis of a witness."""

    blocks: tuple[Block, ...]
    status: ClassVar[Status] = "measured"
    how: ClassVar[str] = (
        "every block of both, compared in the basis of the witness with the effect of rounding"
    )

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def value(self) -> bool:
        """Whether the witness is valid: whether all blocks agree."""
        return all(block.agrees for block in self.blocks)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return stated(self, "blocks", holds=self.value)
