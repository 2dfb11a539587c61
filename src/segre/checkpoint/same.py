"""Are two checkpoints the same function? Decided from weights, with a witness; never from outputs.

Both are reduced, the second is turned into the basis of the first, and all invariants are compared,
relative to the effect of rounding. If they agree to within rounding, the turn is the
witness: anyone can apply it again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from segre.checkpoint.comparison import Comparison, Verdict, same_up_to
from segre.checkpoint.dtypes import dtype_name
from segre.checkpoint.evidence import NEAR, Block, Side, compared_blocks
from segre.checkpoint.function import (
    differing_keys,
    in_words,
    require_known,
    require_same_architecture,
    restated,
    scales_apart,
    unknown,
)
from segre.checkpoint.limits import HALF
from segre.checkpoint.match import Finder
from segre.checkpoint.model import Model, Progress, bits, no_progress
from segre.checkpoint.one_form import in_one_design
from segre.checkpoint.outputs import Running, furthest, random_tokens
from segre.checkpoint.reduce import Reduced
from segre.checkpoint.rounding import (
    Differences,
    Rounded,
    coarsest,
    differences,
    require_same_tensors,
)
from segre.checkpoint.strata import lost_signs, special_points, special_stream
from segre.checkpoint.unlike import ARITHMETIC, MARGIN, outputs_apart
from segre.checkpoint.witness import Witness
from segre.symmetry.compact import of_stream
from segre.transformer.spec import Transformer

OUTPUTS = 4096.0  # how many rounding errors outputs may be apart
BLUNT = 0.5  # rounding that does this to a matrix hides too much
DRAWS = 8  # of the effect of rounding, before a small model is called different
SMALL = 1 << 22  # parameters of a small model


def same_checkpoint(
    one: Model,
    two: Model,
    *,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Comparison:
    """Compare two checkpoints: brought to one design where they can be, then by their weights.

    Of vocabularies of different sizes, the tokens that both have are compared.
    """
    form = in_one_design(one, two)
    found = _same_form(form.one, form.two, seed, progress)
    if form.said:
        verdict: Verdict = "same function" if found.verdict == "identical" else found.verdict
        reason = f"{'; '.join(form.said)}; apart from that, {found.reason}"
        found = replace(found, verdict=verdict, reason=reason, reduced=form.said)
    if form.tokens is None:
        return found
    reason = (
        f"vocabularies of {one.spec.vocab:,} and {two.spec.vocab:,} tokens, of which the first "
        f"{form.tokens:,} are compared: {found.reason}"
    )
    verdict = "same on common tokens" if found.same else found.verdict
    return replace(found, verdict=verdict, reason=reason, tokens=form.tokens)


def _same_form(one: Model, two: Model, seed: int, progress: Progress) -> Comparison:
    if keys := differing_keys(one.spec, two.spec):
        return _unlike(one, two, in_words(one.spec, two.spec, keys), seed)
    if said := unknown(one, two):
        return Comparison("undecided", said)
    scales = scales_apart(one, two)
    if not scales and _identical(one, two):
        return Comparison("identical", "all tensors have the same values")
    out = _compared(one, two, scales, seed, progress)
    if scales and out.verdict == "different":
        return replace(out, reason=f"{out.reason}; {scales}")
    return out


def _unlike(one: Model, two: Model, said: str, seed: int) -> Comparison:
    """The verdict on two designs that could not be made one, by their outputs."""
    reason = f"the architectures differ: {said}"
    found = outputs_apart(one, two, seed)
    if found is None:
        return Comparison("different", f"{reason}; inputs or outputs have other sizes")
    apart, near = found
    reason += (
        f"; outputs on random tokens differ by {apart:.2g}, relative, and rounding can explain "
        f"{near:.1g}"
    )
    return Comparison(
        "different" if apart > near else "undecided", reason, outputs=apart, outputs_tolerance=near
    )


def _compared(one: Model, two: Model, scales: str, seed: int, progress: Progress) -> Comparison:
    """Compare the weights of two checkpoints whose configs agree, but for scales of scores."""
    found = differences(one, two)
    unit = max(one.roundoff(), two.roundoff())
    finder = Finder(in_place=found.in_place, near=NEAR * unit)
    running = _Running(one, two, found, seed)
    blocks, special = _blocks(running.sides, found, finder, progress, seed)
    if finder.undetermined:
        special.append("the token tables do not determine the basis of the stream")
    special += [what for what in (special_stream(one), lost_signs(one), lost_signs(two)) if what]
    apart, near = running.apart()
    dtype = coarsest(one, two)
    out = Comparison(
        same_up_to(dtype),
        f"{len(blocks)} blocks agree to within rounding in the basis of the witness",
        tuple(blocks),
        apart,
        near,
        unit,
        finder,
        found.differing,
        type=dtype_name(dtype),
    )
    if found.differing == 0 and not scales:
        return replace(out, reason="all tensors have the same values, rounded to the coarser type")
    if out.differing:
        verdict, reason = _differing(out, special)
        return replace(out, verdict=verdict, reason=reason)
    if found.stray and unit > HALF:
        reason = (
            f"{found.shared:.0%} of the values are equal bit for bit, and the others differ by "
            "about as much as rounding: there was very little training, or a change of basis "
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
            f"{blunt.place}, {blunt.kind}: the storage type is too coarse, or the token table "
            "does not determine the basis"
        )
        return replace(out, verdict="undecided", reason=reason)
    return out


def _blocks(
    sides: tuple[Side, Side], found: Differences, finder: Finder, progress: Progress, seed: int
) -> tuple[list[Block], list[str]]:
    """All blocks, and the special features of those that differ.

    Rounding a small block once may show almost nothing of the effect of rounding. Before a small
    model is called different, several draws are taken.
    """

    model = sides[0].exact

    def measured(turns: Witness, one: Side, two: Side) -> tuple[list[Block], list[str]]:
        blocks, special = list[Block](), list[str]()
        for a, b, fresh in compared_blocks(one, two, found, turns, progress):
            blocks += fresh
            special += _special(model.spec, a, b, [block for block in fresh if not block.agrees])
        return blocks, special

    out = measured(finder, *sides)
    if model.store.parameters > SMALL or found.edited or all(block.agrees for block in out[0]):
        return out
    one, two = (Side.of(side.exact, found, seed, DRAWS) for side in sides)
    return measured(Witness(finder.basis, finder.head, finder.layers), one, two)


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
            f"the relative difference in {worst.title} is {difference:.2g}; rounding can explain "
            f"{explained}"
        )
    return "undecided", (
        f"{worst.title} differs by {worst.ratio:.2g} times what rounding can explain: more than "
        "saving the file once would cause, but too little to be certain of a change"
    )


def outputs_tolerance(roundoff: float) -> float:
    """The relative difference of outputs that rounding of the weights can cause."""
    return min(0.5, OUTPUTS * roundoff)


class _Running:
    """Two checkpoints, and their outputs, computed while they are compared."""

    def __init__(self, one: Model, two: Model, found: Differences, seed: int) -> None:
        self.sides = (Side.of(one, found, seed), Side.of(restated(two, one), found, seed))
        tokens = random_tokens(one.spec, seed)
        self._pairs: list[tuple[Running, Running]] = []
        for model, side in zip((one, two), self.sides, strict=True):
            exact, moved = side.exact, side.moved[0]
            same = not exact.factors  # else queries are restated, but outputs are of the model
            again = moved if same else Rounded.of(model, found, seed)
            first = exact.run(tokens) if exact.as_it_is else Running(model, tokens)
            self._pairs.append((first, again.run(tokens)))

    def apart(self) -> tuple[float, float]:
        """The difference of outputs, and the effect of rounding on them."""
        (ours, moved), (theirs, others) = ([x.outputs() for x in pair] for pair in self._pairs)
        effects = furthest(ours, moved), furthest(theirs, others)
        return furthest(ours, theirs), MARGIN * max(*effects, ARITHMETIC)


def check_blocks(
    one: Model, two: Model, witness: str | Path, progress: Progress
) -> tuple[Block, ...]:
    """All blocks of two checkpoints in the basis of a witness; nothing is searched for."""
    form = in_one_design(one, two)
    one, two = form.one, form.two
    require_same_architecture(one, two)
    require_known(one, two)
    turns = Witness.read(witness, one.spec)
    found = differences(one, two)
    stream = turns.basis.get("stream")
    if stream is not None and not of_stream(one.spec)["stream"].still(
        stream
    ):  # then rounding is measured in another basis than that of files
        found = replace(found, shared=0.0)
    ours, theirs = (Side.of(model, found) for model in (one, restated(two, one)))
    every = compared_blocks(ours, theirs, found, turns, progress)
    return tuple(block for *_, blocks in every for block in blocks)


def _special(spec: Transformer, a: Reduced, b: Reduced, blocks: list[Block]) -> list[str]:
    """Why blocks of a part may differ although the function does not."""
    if not blocks:
        return []
    differ = [block.name.split()[0] for block in blocks]
    found = [*special_points(spec, a), *special_points(spec, b)]
    return [point.text for point in found if point.place in differ]


def _identical(one: Model, two: Model) -> bool:
    """Whether all tensors have the same values, ignoring types."""
    require_same_tensors(one, two)
    for part in one.held:
        for ours, theirs in zip(one.held[part], two.held[part], strict=True):
            a, b = one.store.raw(ours.file), two.store.raw(theirs.file)
            if ours.meaning != theirs.meaning:
                return False
            if a.dtype == b.dtype:
                if not np.array_equal(bits(a), bits(b)):
                    return False
            elif not np.array_equal(a.astype(np.float64), b.astype(np.float64)):
                return False
    return True
