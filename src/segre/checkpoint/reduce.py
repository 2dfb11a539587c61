"""A checkpoint with all its free continuous choices removed part by part, and restored.

The choices are elements of what is free in each space (`segre.symmetry`), so that they can be put
back, also on another checkpoint. The remaining freedom consists of orthogonal matrices and
permutations: of the stream, of each head, of the units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.served import require_normal_form
from segre.checkpoint.units import UNITS, clear, dead_units, kinds
from segre.checkpoint.without_effect import dead_units as dead_up_to_rounding
from segre.fields.interface import Array
from segre.symmetry.action import Actor, Move
from segre.symmetry.compact import Elements, of_stream
from segre.symmetry.reduction import Reduction
from segre.symmetry.space import FloatWeights, Tensor
from segre.transformer.spec import Transformer

PREFERENCES = "b_R"  # of a router: constants, whose mean has no effect
Choose = Callable[[Actor, Array, FloatWeights, FloatWeights], Array]


@dataclass
class Reduced:
    """One reduced part, and the choices that were removed."""

    part: str
    tensors: Tensors
    move: Move = field(default_factory=list)
    preference: Array | float = 0.0  # of experts: the mean
    beside: dict[Tensor, Array] = field(default_factory=dict)  # of other parts it depends on
    shares: dict[Tensor, float] = field(default_factory=dict)  # of tensors without effect

    def weights(self, spec: Transformer) -> FloatWeights:
        """The tensors, and those beside them."""
        own = {(self.part, name): x for name, x in self.tensors.items()}
        return FloatWeights(spec, self.beside | own)

    def turn_beside(self, spec: Transformer, stream: Elements) -> None:
        """Tensors of other parts in another basis of the stream."""
        w = FloatWeights(spec, self.beside)
        for name, element in stream.items():
            of_stream(spec)[name].act(w, element)


def reduced(model: Model, slack: float = 0.0, *, measured: bool = False) -> Iterator[Reduced]:
    """The parts of a model, one after the other, reduced; only one is in memory.

    Tensors that differ from their reduced form by less than `slack`, relative to their size, stay.
    If `measured`, it is said which share of tensors has no effect.
    """
    spec, unit = model.spec, model.roundoff()
    require_normal_form(spec)

    def read(tensor: Tensor) -> Array:
        part, name = tensor
        return model.part(part, [name])[name]

    reduction = Reduction(spec, read, slack, measured=measured, roundoff=unit)
    for part in model.parts:
        w = model.part(part)
        dead = dead_up_to_rounding(spec.at(part), w, unit)
        if dead.any():
            clear(spec, part, w, UNITS, dead)
        preference = _centre_preferences(w, slack)
        move = reduction.part(part, w, owned=True)
        for kind in kinds(w):
            clear(spec, part, w, kind, dead_units(spec, w, kind))
        yield Reduced(part, w, move, preference, reduction.beside, reduction.shares)


def _centre_preferences(w: Tensors, slack: float) -> Array | float:
    """Remove the mean of what routers prefer, in place, unless rounding explains it."""
    if PREFERENCES not in w:
        return 0.0
    mean: Array = w[PREFERENCES].mean(axis=0, keepdims=True)
    if np.linalg.norm(mean) <= slack * np.linalg.norm(w[PREFERENCES]):
        return 0.0
    w[PREFERENCES] = w[PREFERENCES] - mean
    return mean


def restore(spec: Transformer, one: Reduced, two: Reduced, choose: Choose) -> None:
    """Give `two`, in place, the choices of `one`, or those that `choose` finds instead.

    It is given what acts, the element of `one`, and both parts: `one` after, and `two` before the
    choice is put back. Both parts are used up: their arrays change where they are.
    """
    a, b = one.weights(spec), two.weights(spec)
    a.owned = b.owned = True
    for actor, element in reversed(one.move):
        actor.act(a, actor.inverse(element))
        actor.act(b, actor.inverse(choose(actor, element, a, b)))
    two.tensors = {name: b(two.part, name) for name in two.tensors}
    if PREFERENCES in two.tensors:
        two.tensors[PREFERENCES] = two.tensors[PREFERENCES] + one.preference
