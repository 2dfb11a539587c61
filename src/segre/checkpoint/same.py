"""Are two checkpoints the same function? Decided on weights, with a witness; never on outputs.

Both are reduced, the second is turned into the basis of the first, and all invariants are
compared, beside what rounding does to them. If they agree to within rounding, the turn is the
witness: anyone can apply it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from segre.checkpoint.evidence import NEAR, Block, compared_blocks
from segre.checkpoint.function import (
    differing_keys,
    in_words,
    judged,
    require_known,
    restated,
    scales_apart,
)
from segre.checkpoint.limits import HALF
from segre.checkpoint.model import Model, Progress, bits, no_progress
from segre.checkpoint.one_form import in_one_form
from segre.checkpoint.outputs import furthest, outputs, random_tokens
from segre.checkpoint.pairs import Finder
from segre.checkpoint.reduce import Reduced
from segre.checkpoint.rounding import Differences, Rounded, differences, require_same_tensors
from segre.checkpoint.signs import lost_signs
from segre.checkpoint.strata import special_points, special_stream
from segre.checkpoint.witness import Witness
from segre.errors import CheckpointError
from segre.finding import Status, Unbounded
from segre.shown import Tabular
from segre.transformer.spec import Transformer

Verdict = Literal["identical", "same function", "same on common tokens", "different", "undecided"]
OUTPUTS = 4096.0  # how many rounding errors outputs may be apart
OUTPUTS_MARGIN = 16.0  # over the measured effect of rounding on them
BLUNT = 0.5  # rounding that does this to a matrix hides too much
DRAWS = 8  # of the effect of rounding, before a small model is called different
SMALL = 1 << 22  # parameters of a small model
ARITHMETIC = 1e-9  # what double precision does to outputs


@dataclass(frozen=True)
class Comparison(Unbounded, Tabular):
    """The verdict on two checkpoints, and what it rests on."""

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
        """The blocks that differ by more than rounding explains."""
        return tuple(block for block in self.blocks if not block.agrees)

    @property
    def sensitivity(self) -> tuple[float, float]:
        """The relative change that would be seen, in a typical block and in the coarsest."""
        seen = [block.seen for block in self.blocks if block.matrix]
        return (float(np.median(seen)), float(np.max(seen))) if seen else (0.0, 0.0)

    @property
    def worst(self) -> Block | None:
        """The block that is nearest to its limit, or furthest beyond it."""
        return max(self.blocks, key=lambda block: block.excess, default=None)

    @property
    def value(self) -> Verdict:
        """The verdict."""
        return self.verdict

    @property
    def status(self) -> Status:
        """Equal files are known exactly; the rest is measured beside rounding."""
        return "exact" if self.verdict == "identical" else "measured"

    @property
    def how(self) -> str:
        """What the verdict rests on."""
        return self.reason

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
        """Whether the witness holds: whether all blocks agree."""
        return all(block.agrees for block in self.blocks)

    @property
    def status(self) -> Status:
        """Differences are measured, beside what rounding does."""
        return "measured"

    @property
    def how(self) -> str:
        """How it is known."""
        return "every block of both, compared in the basis of the witness beside what rounding does"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"holds": self.value, "blocks": [block.document() for block in self.blocks]}


def same_checkpoint(
    one: Model,
    two: Model,
    *,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Comparison:
    """Compare two checkpoints: what their configs say, then their weights.

    Of vocabularies of different sizes, the tokens that both have are compared.
    """
    sizes = one.spec.vocab, two.spec.vocab
    one, two, tokens = in_one_form(one, two)
    found = _same_form(one, two, seed, progress)
    if tokens is None:
        return found
    verdict: Verdict = "same on common tokens" if found.same else found.verdict
    reason = (
        f"of {sizes[0]:,} and {sizes[1]:,} tokens the first {tokens:,} are compared: {found.reason}"
    )
    return replace(found, verdict=verdict, reason=reason, tokens=tokens)


def _same_form(one: Model, two: Model, seed: int, progress: Progress) -> Comparison:
    if (found := judged(one, two)) is not None:
        return Comparison(*found)
    scales = scales_apart(one, two)
    if not scales and _identical(one, two):
        return Comparison("identical", "every tensor has the same numbers")
    out = _compared(one, two, scales, seed, progress)
    if scales and out.verdict == "different":
        return replace(out, reason=f"{out.reason}; {scales}")
    return out


def _compared(one: Model, two: Model, scales: str, seed: int, progress: Progress) -> Comparison:
    """Compare the weights of two checkpoints whose configs agree, but for scales of scores."""
    found = differences(one, two)
    unit = max(one.roundoff(), two.roundoff())
    finder = Finder(in_place=found.in_place, near=NEAR * unit)
    blocks, special = _blocks(one, restated(two, one), found, finder, progress, seed)
    if finder.undetermined:
        special.append("its tables do not determine the basis of the stream")
    special += [what for what in (special_stream(one), lost_signs(one), lost_signs(two)) if what]
    apart, near = _outputs(one, two, found, seed, progress)
    out = Comparison(
        "same function",
        f"{len(blocks)} blocks agree to within rounding in the basis of the witness",
        tuple(blocks),
        apart,
        near,
        unit,
        finder,
        found.differing,
    )
    if found.differing == 0 and not scales:
        return replace(out, reason="every tensor has the same numbers, rounded to the coarser type")
    if out.differing:
        verdict, reason = _differing(out, special)
        return replace(out, verdict=verdict, reason=reason)
    if found.stray and unit > HALF:
        reason = (
            f"of all numbers {found.shared:.0%} are equal bit for bit; the others differ by about "
            "as much as rounding does, as after very little training or after a change of basis "
            "that was undone"
        )
        return replace(out, verdict="undecided", reason=reason)
    if apart > near:
        reason = "all blocks agree to within rounding, but outputs do not"
        return replace(out, verdict="undecided", reason=reason)
    blunt = next((b for b in blocks if b.matrix and b.sensitivity > BLUNT), None)
    if blunt is not None:
        reason = (
            f"all blocks agree, but rounding could hide a change of {blunt.sensitivity:.0%} in "
            f"{blunt.place}, {blunt.kind}: the storage type is too coarse, or the table of tokens "
            "does not determine the basis"
        )
        return replace(out, verdict="undecided", reason=reason)
    return out


def _blocks(
    one: Model, two: Model, found: Differences, finder: Finder, progress: Progress, seed: int
) -> tuple[list[Block], list[str]]:
    """All blocks, and what is special where some differ.

    Rounding a small block once may show next to nothing of what rounding does. Before a small model
    is called different, several draws are taken.
    """

    def measured(turns: Witness, draws: int) -> tuple[list[Block], list[str]]:
        blocks, special = list[Block](), list[str]()
        for a, b, fresh in compared_blocks(one, two, found, turns, progress, seed, draws):
            blocks += fresh
            special += _special(one.spec, a, b, [block for block in fresh if not block.agrees])
        return blocks, special

    out = measured(finder, 1)
    if one.store.parameters > SMALL or found.edited or all(block.agrees for block in out[0]):
        return out
    return measured(Witness(finder.basis, finder.layers), DRAWS)


def _differing(out: Comparison, special: list[str]) -> tuple[Verdict, str]:
    """What follows if some blocks differ, and why."""
    assert out.outputs is not None
    assert out.outputs_tolerance is not None
    worst = out.worst
    assert worst is not None
    if special and out.outputs <= out.outputs_tolerance:
        reason = f"{worst.title} differs, but the weights are special there: {special[0]}"
        return "undecided", reason
    if worst.differs:
        difference, rounding = worst.most
        explained = f"{rounding:.1g}" if rounding > 1e-11 else "nothing"
        return "different", (
            f"{worst.title} differs by {difference:.2g}, relative; rounding explains {explained}"
        )
    return "undecided", (
        f"{worst.title} differs by {worst.ratio:.2g} times what rounding explains: more "
        "than rewriting the file once does, less than is certain to be a change"
    )


def outputs_tolerance(roundoff: float) -> float:
    """How far outputs may be apart, relative, when weights were rounded."""
    return min(0.5, OUTPUTS * roundoff)


def _outputs(
    one: Model, two: Model, found: Differences, seed: int, progress: Progress
) -> tuple[float, float]:
    """How far outputs are apart, and how far rounding takes them."""
    X = random_tokens(one.spec, seed)
    ours, theirs = (outputs(model, X, progress) for model in (one, two))
    effects = [
        furthest(exact, outputs(Rounded.of(model, found, seed), X, progress))
        for model, exact in ((one, ours), (two, theirs))
    ]
    return furthest(ours, theirs), OUTPUTS_MARGIN * max(*effects, ARITHMETIC)


def check_blocks(one: Model, two: Model, turns: Witness, progress: Progress) -> tuple[Block, ...]:
    """All blocks of two checkpoints in the basis of a witness; nothing is searched for."""
    one, two, _ = in_one_form(one, two)
    require_same_architecture(one, two)
    require_known(one, two)
    found = differences(one, two)
    every = compared_blocks(one, restated(two, one), found, turns, progress)
    return tuple(block for *_, blocks in every for block in blocks)


def _special(spec: Transformer, a: Reduced, b: Reduced, blocks: list[Block]) -> list[str]:
    """Why blocks of a part may differ although the function does not."""
    if not blocks:
        return []
    differ = [block.name.split()[0] for block in blocks]
    found = [*special_points(spec, a), *special_points(spec, b)]
    return [point.text for point in found if point.place in differ]


def require_same_architecture(one: Model, two: Model) -> None:
    """Refuse two checkpoints whose weights cannot be compared at all."""
    if keys := differing_keys(one.spec, two.spec):
        raise CheckpointError(
            f"{one.name!r} and {two.name!r} are of different architectures: "
            f"{in_words(one.spec, two.spec, keys)}"
        )


def _identical(one: Model, two: Model) -> bool:
    """Whether every tensor has the same numbers, whatever the types."""
    require_same_tensors(one, two)
    for part in one.held:
        for ours, theirs in zip(one.held[part], two.held[part], strict=True):
            a, b = one.store.raw(ours.file), two.store.raw(theirs.file)
            if a.dtype == b.dtype:
                if not np.array_equal(bits(a), bits(b)):
                    return False
            elif not np.array_equal(a.astype(np.float64), b.astype(np.float64)):
                return False
    return True
