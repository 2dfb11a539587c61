"""Are two checkpoints the same function? Decided from weights, with a witness; never from outputs.

Both are reduced, the second is turned into the basis of the first, and all invariants are compared,
relative to the effect of rounding. If they agree to within rounding, the turn is the
witness: anyone can apply it again.

Two designs that cannot be made one may still have a function in common. There, a difference of
outputs counts that rounding the weights cannot explain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from segre.checkpoint.comparison import Check, Comparison, Verdict, same_up_to
from segre.checkpoint.dtypes import dtype_name
from segre.checkpoint.evidence import HALF, NEAR, Block, compared_blocks, copies
from segre.checkpoint.function import (
    differing_keys,
    in_words,
    lengths,
    require_same_architecture,
    restated,
    scales_apart,
    unknown,
)
from segre.checkpoint.match import Finder
from segre.checkpoint.model import Model, Progress, bits, coarsest, no_progress
from segre.checkpoint.one_form import in_one_design
from segre.checkpoint.outputs import Running, furthest, outputs, random_tokens
from segre.checkpoint.overflow import on_models
from segre.checkpoint.rounding import (
    Differences,
    Rounded,
    all_rewritten,
    differences,
)
from segre.checkpoint.strata import lost_signs, special_points, special_stream
from segre.errors import CheckpointError
from segre.fields.interface import Array
from segre.models import Source
from segre.symmetry.compact import of_stream
from segre.transformer.forward import Tokens
from segre.transformer.spec import Transformer

OUTPUTS = 4096.0  # how many rounding errors outputs may be apart
MARGIN = 16.0  # over the measured effect of rounding on outputs
ARITHMETIC = 1e-9  # what double precision does to outputs
BLUNT = 0.5  # rounding that does this to a matrix hides too much
DRAWS = 8  # of the effect of rounding, before a small model is called different
SMALL = 1 << 22  # parameters of a small model
LENGTH = 64  # tokens of an input
LONGEST = 1024  # of one that is to reach beyond a window, or the context of a rescaling


@on_models(2)
def same(
    one: Source, two: Source, *, seed: int = 0, progress: Progress = no_progress
) -> Comparison:
    """Whether two checkpoints are the same function.

    They are brought to one design where they can be, and compared by their weights. Of vocabularies
    of different sizes, the tokens that both have are compared.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     other = example(f"{folder}/other", seed=1)
    ...     found = same(model, other)
    >>> found.verdict, found.first is not None
    ('different', True)
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
    found = differences(one, two)
    out, special = _compared(one, two, found, seed, progress)
    verdict, reason = _verdict(out, found, special, scales)
    if scales and verdict == "different":
        reason = f"{reason}; {scales}"
    return replace(out, verdict=verdict, reason=reason)


def _identical(one: Model, two: Model) -> bool:
    """Whether all tensors have the same values, ignoring types."""
    for part in one.held:
        for ours, theirs in zip(one.held[part], two.held[part], strict=True):
            a, b = one.store.raw(ours.file), two.store.raw(theirs.file)
            if ours.meaning != theirs.meaning:
                return False
            alike = a.dtype == b.dtype
            a, b = ((bits(x) if alike else x.astype(np.float64)) for x in (a, b))
            if not np.array_equal(a, b):
                return False
    return True


# --- by weights -----------------------------------------------------------------------------------


def _compared(
    one: Model, two: Model, found: Differences, seed: int, progress: Progress
) -> tuple[Comparison, list[str]]:
    """The evidence on two whose configs agree, but for scales of scores; what is special.

    Rounding a small block once may show almost nothing of the effect of rounding. Before a small
    model is called different, several draws are taken.
    """
    sides = [copies(model, found, seed) for model in (one, restated(two, one))]
    tokens = random_tokens(one.spec, seed)
    running = [
        _running(model, side, found, seed, tokens)
        for model, side in zip((one, two), sides, strict=True)
    ]
    unit, dtype = max(one.roundoff(), two.roundoff()), coarsest(one, two)
    finder = Finder(in_place=found.in_place, near=NEAR * unit)
    blocks, special = _blocks(sides, found, finder, progress)
    small = one.store.parameters <= SMALL and not found.edited
    if small and not all(block.agrees for block in blocks):
        sides = [copies(exact, found, seed, DRAWS) for exact, _ in sides]
        blocks, special = _blocks(sides, found, finder, progress)
    if finder.undetermined:
        special.append("the token tables do not determine the basis of the stream")
    special += [what for what in (special_stream(one), lost_signs(one), lost_signs(two)) if what]
    apart, near = _outputs_apart(*([x.outputs() for x in pair] for pair in running))
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
    return out, special


def _running(
    model: Model, side: list[Rounded], found: Differences, seed: int, tokens: Tokens
) -> tuple[Running, Running]:
    """The outputs of a model and of the same rounded again, while its parts are compared."""
    exact, moved = side
    if exact.factors:  # queries are restated, but outputs are of the model
        moved = Rounded.of(model, found, seed)
    first = exact.run(tokens) if exact.as_it_is else Running(model, tokens)
    return first, moved.run(tokens)


def _blocks(
    sides: list[list[Rounded]], found: Differences, turns: Finder, progress: Progress
) -> tuple[list[Block], list[str]]:
    """All blocks, and why those that differ may do so although the function does not."""
    (one, two), blocks, special = sides, list[Block](), list[str]()
    for a, b, fresh in compared_blocks(one, two, found, turns, progress):
        blocks += fresh
        differ = [block.name.split()[0] for block in fresh if not block.agrees]
        if differ:
            points = [x for part in (a, b) for x in special_points(one[0].spec, part)]
            special += [point.text for point in points if point.place in differ]
    return blocks, special


def _verdict(
    out: Comparison, found: Differences, special: list[str], scales: str
) -> tuple[Verdict, str]:
    """What follows from the evidence, and why."""
    apart, near = out.outputs or 0.0, out.outputs_tolerance or 0.0
    if found.differing == 0 and not scales:
        return out.verdict, "all tensors have the same values, rounded to the coarser type"
    if out.differing:
        return _of_blocks(out, special if apart <= near else [])
    if found.stray and out.roundoff is not None and out.roundoff > HALF:
        return "undecided", (
            f"{found.shared:.0%} of the values are equal bit for bit, and the others differ by "
            "about as much as rounding: there was very little training, or a change of basis "
            "that was undone"
        )
    if apart > near:
        return "undecided", "all blocks agree to within rounding, but outputs do not"
    for blunt in (b for b in out.blocks if b.matrix and b.sensitivity > BLUNT):
        return "undecided", (
            f"all blocks agree, but rounding could hide a change of {blunt.sensitivity:.0%} in "
            f"{blunt.place}, {blunt.kind}: the storage type is too coarse, or the token table "
            "does not determine the basis"
        )
    return out.verdict, out.reason


def _of_blocks(out: Comparison, special: list[str]) -> tuple[Verdict, str]:
    """What follows from blocks that differ; `special` says why they may although outputs agree."""
    worst = out.worst
    assert worst is not None
    if special:
        return "undecided", (
            f"{worst.title} differs, but the weights are special there: {special[0]}"
        )
    difference, rounding = worst.most
    if worst.excess <= worst.limits.certain:
        return "undecided", (
            f"{worst.title} differs by {worst.ratio:.2g} times what rounding can explain: more "
            "than saving the file once would cause, but too little to be certain of a change"
        )
    return "different", (
        f"the relative difference in {worst.title} is {difference:.2g}; rounding can explain "
        f"{f'{rounding:.1g}' if rounding > 1e-11 else 'nothing'}"
    )


@on_models(2)
def check(
    one: Source, two: Source, witness: str | Path, *, progress: Progress = no_progress
) -> Check:
    """All blocks of two checkpoints, compared in the basis of a `witness`: a file of `same`.

    Nothing is searched for.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.commands import move
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     moved = move(model, f"{folder}/moved").directory
    ...     same(model, moved).witness.write(f"{folder}/witness.safetensors")
    ...     check(model, moved, f"{folder}/witness.safetensors").value
    True
    """
    form = in_one_design(one, two)
    one, two = form.one, form.two
    require_same_architecture(one, two)
    if said := unknown(one, two):
        raise CheckpointError(f"{one.name!r} and {two.name!r}: {said}")
    turns = Finder.read(witness, one.spec)
    found = differences(one, two)
    stream = turns.basis.get("stream")
    if stream is not None and not of_stream(one.spec)["stream"].still(
        stream
    ):  # then rounding is measured in another basis than that of files
        found = replace(found, shared=0.0)
    ours, theirs = (copies(model, found) for model in (one, restated(two, one)))
    every = compared_blocks(ours, theirs, found, turns, progress)
    return Check(tuple(block for *_, blocks in every for block in blocks))


# --- by outputs -----------------------------------------------------------------------------------


def outputs_tolerance(roundoff: float) -> float:
    """The relative difference of outputs that rounding of the weights can cause."""
    return min(0.5, OUTPUTS * roundoff)


def _outputs_apart(ours: list[Array], theirs: list[Array]) -> tuple[float, float]:
    """The difference of outputs, and the effect of rounding: of each, and once more rounded."""
    near = MARGIN * max(furthest(*ours), furthest(*theirs), ARITHMETIC)
    return furthest(ours[0], theirs[0]), near


def _unlike(one: Model, two: Model, said: str, seed: int) -> Comparison:
    """The verdict on two designs that could not be made one, by their outputs."""
    reason = f"the architectures differ: {said}"
    nothing = Comparison("different", f"{reason}; inputs or outputs have other sizes")
    if not _alike_inputs(one.spec, two.spec):
        return nothing
    apart, near = 0.0, MARGIN * ARITHMETIC
    for tokens in _inputs(one.spec, two.spec, seed):
        both = [
            [outputs(x, tokens) for x in (model, Rounded.of(model, all_rewritten(model), seed))]
            for model in (one, two)
        ]
        if one.spec.output == two.spec.output == "logits" and one.spec.labels == two.spec.labels:
            words = one.spec.labels or min(one.spec.vocab, two.spec.vocab)
            both = [[x[:, :words] for x in each] for each in both]
        if both[0][0].shape != both[1][0].shape:
            return nothing
        found = _outputs_apart(*both)
        if found[0] / found[1] > apart / near:
            apart, near = found
        if found[0] > found[1]:
            break
    reason += (
        f"; outputs on random tokens differ by {apart:.2g}, relative, and rounding can explain "
        f"{near:.1g}"
    )
    verdict: Verdict = "different" if apart > near else "undecided"
    return Comparison(verdict, reason, outputs=apart, outputs_tolerance=near)


def _alike_inputs(one: Transformer, two: Transformer) -> bool:
    """Whether both read the same inputs: tokens, patches or matrices of one size."""
    wide = (one.patch, one.t) == (two.patch, two.t) if one.patch or two.patch else True
    return wide and one.discrete == two.discrete and (one.embedded or one.d == two.d)


def _inputs(one: Transformer, two: Transformer, seed: int) -> Iterator[Tokens]:
    """Random inputs that both accept, of all lengths that may show a difference."""
    context = max(one.t, two.t)
    learned = [spec.t for spec in (one, two) if spec.pos == "learned" or spec.patch]
    tried = {LENGTH}
    for spec in (one, two):
        tried |= {n + 1 for n in spec.window if n}
        tried |= {n for i in range(1, spec.layers + 1) for n in lengths(spec.at(i))}
    vocab, types = min(one.vocab, two.vocab), min(one.types, two.types)
    small = replace(one, vocab=vocab, types=types, t=context)
    for length in sorted({min(n, context, LONGEST, *learned) for n in tried}):
        yield random_tokens(small, seed, length=length)
