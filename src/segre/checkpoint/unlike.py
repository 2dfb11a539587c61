"""Two checkpoints of designs that cannot be made one: do their outputs differ?

A design is no invariant of a function: two designs may have it in common. What counts is a
difference of outputs that rounding the weights cannot explain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from segre.checkpoint.function import lengths
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import furthest, outputs, random_tokens
from segre.checkpoint.rounding import Rounded, all_rewritten
from segre.transformer.forward import Tokens
from segre.transformer.spec import Transformer

MARGIN = 16.0  # over the measured effect of rounding on outputs
ARITHMETIC = 1e-9  # what double precision does to outputs
LENGTH = 64  # tokens of an input
LONGEST = 1024  # of one that is to reach beyond a window, or the context of a rescaling


def outputs_apart(one: Model, two: Model, seed: int) -> tuple[float, float] | None:
    """The difference of outputs and what rounding explains of it; None: of other shapes."""
    if not _alike_inputs(one.spec, two.spec):
        return None
    found = 0.0, MARGIN * ARITHMETIC
    for tokens in _inputs(one.spec, two.spec, seed):
        ours, theirs = ([outputs(x, tokens) for x in _rounded(model, seed)] for model in (one, two))
        if one.spec.output == two.spec.output == "logits" and one.spec.labels == two.spec.labels:
            words = one.spec.labels or min(one.spec.vocab, two.spec.vocab)
            ours, theirs = ([x[:, :words] for x in each] for each in (ours, theirs))
        if ours[0].shape != theirs[0].shape:
            return None
        near = MARGIN * max(furthest(*ours), furthest(*theirs), ARITHMETIC)
        if (apart := furthest(ours[0], theirs[0])) / near > found[0] / found[1]:
            found = apart, near
        if apart > near:
            break
    return found


def _rounded(model: Model, seed: int) -> tuple[Model, Model]:
    """A checkpoint, and the same rounded once more."""
    return model, Rounded.of(model, all_rewritten(model), seed)


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
    small = replace(
        one, vocab=min(one.vocab, two.vocab), types=min(one.types, two.types), t=context
    )
    for length in sorted({min(n, context, LONGEST, *learned) for n in tried}):
        yield random_tokens(small, seed, length=length)
