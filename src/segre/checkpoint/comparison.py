"""The result of comparing two checkpoints: the verdict and its evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from segre.checkpoint.evidence import Block
from segre.checkpoint.witness import Witness
from segre.finding import Status, Unbounded
from segre.shown import Tabular

Verdict = Literal["identical", "same function", "same on common tokens", "different", "undecided"]


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

    @property
    def same(self) -> bool:
        """Whether the two are the same function, on the tokens that both have."""
        return self.verdict in ("identical", "same function", "same on common tokens")

    @property
    def said(self) -> str:
        """The verdict in words: same on the first 32,000 tokens."""
        if self.tokens is None or not self.same:
            return self.verdict
        return f"same on the first {self.tokens:,} tokens"

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
        """The relative change that is detected in a typical and in the least sensitive block."""
        seen = [block.seen for block in self.blocks if block.matrix]
        return (float(np.median(seen)), float(np.max(seen))) if seen else (0.0, 0.0)

    @property
    def worst(self) -> Block | None:
        """The block nearest to its limit, or furthest beyond it."""
        return max(self.blocks, key=lambda block: block.excess, default=None)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "tokens": self.tokens,
            "roundoff": self.roundoff,
            "outputs": {"difference": self.outputs, "tolerance": self.outputs_tolerance},
            "blocks": len(self.blocks),
            "differing_entries": self.differing_entries,
            "sensitivity": dict(zip(("typical", "coarsest"), self.sensitivity, strict=True)),
            "differing": [block.document() for block in self.differing],
            "worst": None if self.worst is None else self.worst.document(),
        }


@dataclass(frozen=True)
class Check(Unbounded, Tabular):
    """All blocks of two checkpoints, compared in the basis of a witness."""

    blocks: tuple[Block, ...]

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def value(self) -> bool:
        """Whether the witness is valid: whether all blocks agree."""
        return all(block.agrees for block in self.blocks)

    @property
    def status(self) -> Status:
        """Differences are measured and compared with the effect of rounding."""
        return "measured"

    @property
    def how(self) -> str:
        """How it is known."""
        return (
            "every block of both, compared in the basis of the witness with the effect of rounding"
        )

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"holds": self.value, "blocks": [block.document() for block in self.blocks]}
