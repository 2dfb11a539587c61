"""Are two checkpoints the same function? Decided on weights, with a witness; never on outputs.

Both are reduced, the second is turned into the basis of the first, and all invariants are
compared. If they agree to within rounding, the turn is the witness: anyone can apply it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from segre.checkpoint.compare import Block, Rounding, compare_part
from segre.checkpoint.function import (
    differing_keys,
    in_words,
    judged,
    require_known,
    restated,
    scales_apart,
)
from segre.checkpoint.layout import Tensors
from segre.checkpoint.match import match_layer, match_stream, match_transform, stream_error
from segre.checkpoint.model import Model, Progress, bits, no_progress
from segre.checkpoint.outputs import furthest, outputs, random_tokens
from segre.checkpoint.reduce import Reduced, reduced
from segre.checkpoint.strata import special_points
from segre.checkpoint.turn import LayerTurn, StreamTurn
from segre.checkpoint.witness import Witness
from segre.errors import CheckpointError
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

Verdict = Literal["identical", "same function", "different", "undecided"]
OUTPUTS = 4096.0  # how many rounding errors outputs may be apart
BLUNT = 0.5  # tolerances beyond this decide nothing


class Finder(Witness):
    """Turns that are looked for, and kept as a witness."""

    def stream(self, spec: Transformer, one: Tensors, two: Tensors) -> StreamTurn:
        """The basis of the stream."""
        self.basis = match_stream(spec, one, two)
        return self.basis

    def transform(self, one: Tensors, two: Tensors) -> Array | None:
        """The order of the units of a transform."""
        return match_transform(one, two)

    def layer(self, spec: Transformer, part: str, one: Tensors, two: Tensors) -> LayerTurn:
        """Heads and units of a layer."""
        self.layers[part] = match_layer(spec, one, two)
        return self.layers[part]


@dataclass(frozen=True)
class Comparison:
    """The verdict on two checkpoints, and what it rests on."""

    verdict: Verdict
    reason: str
    blocks: tuple[Block, ...] = ()
    outputs: float | None = None  # largest difference of outputs, relative
    outputs_tolerance: float | None = None
    roundoff: float | None = None
    witness: Witness | None = None

    @property
    def first(self) -> Block | None:
        """The first block that differs."""
        return next((block for block in self.blocks if not block.agrees), None)

    @property
    def coarsest(self) -> float:
        """The largest tolerance of a head, unit or table: smaller changes may not be seen."""
        tolerances = (b.tolerance for b in self.blocks if not b.name.startswith("b_"))
        return max(tolerances, default=0.0)

    @property
    def worst(self) -> Block | None:
        """The block nearest to its tolerance, or furthest beyond it."""
        return max(self.blocks, key=lambda b: b.difference / max(b.tolerance, 1e-300), default=None)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        differing = [block for block in self.blocks if not block.agrees]
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "roundoff": self.roundoff,
            "outputs": {"difference": self.outputs, "tolerance": self.outputs_tolerance},
            "blocks": len(self.blocks),
            "coarsest": self.coarsest,
            "differing": [block.document() for block in differing],
            "worst": None if self.worst is None else self.worst.document(),
        }


def same_checkpoint(
    one: Model,
    two: Model,
    *,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Comparison:
    """Compare two checkpoints: what their configs say, then their weights."""
    if (found := judged(one, two)) is not None:
        return Comparison(*found)
    scales = scales_apart(one, two)
    if not scales and _identical(one, two):
        return Comparison("identical", "every tensor has the same numbers")
    out = _compared(one, two, seed, progress)
    if scales and out.verdict == "different":
        return replace(out, reason=f"{out.reason}; {scales}")
    return out


def _compared(one: Model, two: Model, seed: int, progress: Progress) -> Comparison:
    """Compare the weights of two checkpoints whose configs agree."""
    unit = max(one.roundoff(), two.roundoff())
    finder, special = Finder(), list[str]()
    blocks = list(compared_blocks(one, two, finder, progress, special))
    X = random_tokens(one.spec, seed)
    apart = furthest(outputs(one, X, progress), outputs(two, X, progress))
    out = Comparison(
        "same function",
        f"{len(blocks)} blocks agree to within rounding in the basis of the witness",
        tuple(blocks),
        apart,
        outputs_tolerance(unit),
        unit,
        finder,
    )
    assert out.outputs_tolerance is not None
    agree = apart <= out.outputs_tolerance
    first = out.first
    if first is not None and special and agree:
        reason = f"{first.title} differs, but the weights are special there: {special[0]}"
        return replace(out, verdict="undecided", reason=reason)
    if first is not None:
        reason = (
            f"{first.title} differs by {first.difference:.2g}, relative; "
            f"rounding explains {first.tolerance:.1g}"
        )
        return replace(out, verdict="different", reason=reason)
    if not agree:
        reason = "all blocks agree to within rounding, but outputs do not"
        return replace(out, verdict="undecided", reason=reason)
    if out.coarsest > BLUNT:
        reason = (
            f"all blocks agree, but rounding could hide differences of {out.coarsest:.1g}: the "
            "storage type is too coarse, or the table of tokens does not determine the basis"
        )
        return replace(out, verdict="undecided", reason=reason)
    return out


def outputs_tolerance(roundoff: float) -> float:
    """How far outputs may be apart, relative, when weights were rounded."""
    return min(0.5, OUTPUTS * roundoff)


def compared_blocks(
    one: Model,
    two: Model,
    turns: Witness,
    progress: Progress = no_progress,
    special: list[str] | None = None,
) -> Iterator[Block]:
    """All blocks, compared in the basis of `turns`; reasons for doubt are added to `special`."""
    require_same_architecture(one, two)
    require_known(one, two)
    two = restated(two, one)
    unit = max(one.roundoff(), two.roundoff())
    rounding = Rounding(unit)
    for done, (a, b) in enumerate(turned_pairs(one, two, turns)):
        progress("comparing", done, len(one.parts))
        if a.part == "embed":
            rounding = Rounding(unit, stream_error(one.spec, a.tensors["tokens"], unit))
        fresh = list(compare_part(one.spec, a, b, rounding))
        yield from fresh
        if special is not None and not all(block.agrees for block in fresh):
            special += _special(one.spec, a, b, fresh)


def _special(spec: Transformer, a: Reduced, b: Reduced, blocks: list[Block]) -> list[str]:
    """Why blocks of a part may differ although the function does not."""
    differ = [block.name.split()[0] for block in blocks if not block.agrees]
    found = [*special_points(spec, a), *special_points(spec, b)]
    return [point.text for point in found if point.place in differ]


def turned_pairs(one: Model, two: Model, turns: Witness) -> Iterator[tuple[Reduced, Reduced]]:
    """Parts of both, reduced, the second in the basis of the first; one part at a time."""
    spec = one.spec
    basis = StreamTurn()
    for a, b in zip(reduced(one), reduced(two), strict=True):
        w = b.tensors
        if a.part == "embed":
            basis = turns.stream(spec, a.tensors, w)
        if a.part == "head" and spec.transform and not spec.tied:
            basis.transform = turns.transform(a.tensors, w)
        basis.apply(spec, a.part, w)
        if a.part not in ("embed", "head"):
            turn = turns.layer(spec, a.part, a.tensors, w)
            turn.apply(w)
            assert b.choice.heads is not None
            sizes = b.choice.heads.sizes
            b.choice.heads.sizes = {name: size[turn.heads] for name, size in sizes.items()}
        yield a, b


def require_same_architecture(one: Model, two: Model) -> None:
    """Refuse two checkpoints whose weights cannot be compared at all."""
    if keys := differing_keys(one.spec, two.spec):
        raise CheckpointError(
            f"{str(one.directory)!r} and {str(two.directory)!r} are of different architectures: "
            f"{in_words(one.spec, two.spec, keys)}"
        )


def _identical(one: Model, two: Model) -> bool:
    """Whether every tensor has the same numbers, whatever the types."""
    for part in one.held:
        for ours, theirs in zip(one.held[part], two.held[part], strict=True):
            a, b = one.store.raw(ours.file), two.store.raw(theirs.file)
            if a.dtype == b.dtype:
                if not np.array_equal(bits(a), bits(b)):
                    return False
            elif not np.array_equal(a.astype(np.float64), b.astype(np.float64)):
                return False
    return True
