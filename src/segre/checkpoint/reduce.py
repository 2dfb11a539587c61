"""A checkpoint with all its free continuous choices removed part by part, and restored.

The choices are elements of what is free in each space (`segre.symmetry`), so that they can be put
back, also on another checkpoint. The remaining freedom consists of orthogonal matrices and
permutations: of the stream, of each head, of the units.

Units without effect become zero. Where norms of the stream subtract its mean, an output weight may
have any mean; where a unit reads the output of such a norm, its input weights may have any
component that the norm never puts out. What is left besides is zero if rounding can explain it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.served import require_normal_form
from segre.checkpoint.units import UNITS, clear, dead_units, kinds
from segre.fields.interface import Array
from segre.symmetry.action import Actor, Move
from segre.symmetry.compact import Elements, of_stream
from segre.symmetry.reduction import Reduction
from segre.symmetry.space import FloatWeights, Tensor, inverse_direction
from segre.transformer.spec import Transformer

PREFERENCES = "b_R"  # of a router: constants, whose mean has no effect
ROUNDINGS = 2.0  # rounding errors, relative to what was removed, that count as zero
SUMMED = 4.0  # the same for a sum of many products
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
        dead = units_without_effect(spec.at(part), w, unit)
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


# --- what has no effect ---------------------------------------------------------------------------


def unread_mean(spec: Transformer) -> bool:
    """Whether the mean of an output has no effect: all that reads the stream norms it."""
    return spec.norm == "layer" and (spec.place == "post" or spec.final)


def away_from(gain: Array) -> Array:
    """The direction 1/gain, of length 1, in the limit where gains vanish."""
    found = inverse_direction(gain)
    return np.asarray(found / np.linalg.norm(found))


def silent(spec: Transformer, part: str, w: Tensors, unit: float) -> bool:
    """Whether a layer adds nothing to the stream, and could be left out."""
    first = part == "1" and not spec.firstnorm
    counted = spec.bylayer or spec.decay != "none" or spec.share
    if spec.place == "post" or not spec.residual or spec.skip != 1 or first or counted:
        return False
    written = {"post1": ("W_O", "b_O"), "post2": ("W_down", "S_down", "b_down", "c_down")}
    return all(
        all(_nothing(spec, w, name, unit) for name in names)
        or any(x in w and not w[x].any() for x in (f"{post}.gain", f"scale{post[-1]}"))
        for post, names in written.items()
    )


def _nothing(spec: Transformer, w: Tensors, name: str, unit: float) -> bool:
    """Whether a tensor that writes to the stream writes nothing but a mean that no norm reads."""
    if name not in w:
        return True
    value = size = w[name]
    if name == "b_O" and "b_V" in w and spec.sums_to_one:
        passed = (w["W_O"] @ w["b_V"]).sum(axis=(0, 1))
        value, size = value + passed, np.abs(value) + np.abs(passed)
    return bool(_zero(_centred(spec, value), size, -2, unit).all())


def units_without_effect(spec: Transformer, w: Tensors, unit: float) -> Array:
    """Units of a dense MLP that write nothing, or are always 0; none of other MLPs."""
    if "W_up" not in w or w["W_up"].ndim != 2:
        return np.zeros(0, bool)
    out = _zero(_centred(spec, w["W_down"]), w["W_down"], -2, unit)
    names = ("up",) if spec.mlp != "clamped" else ()  # which adds 1 to it
    for name in (*names, *(("gate",) if spec.gated else ())):
        out |= _reads_nothing(spec, w, name, unit)
    return np.asarray(out)


def _reads_nothing(spec: Transformer, w: Tensors, name: str, unit: float) -> Array:
    """Units for which one of their linear maps is always 0, where the activation is 0 too."""
    rows, bias = w[f"W_{name}"], w.get(f"b_{name}", np.zeros((len(w[f"W_{name}"]), 1)))
    norm = next((n for n in ("norm2", "post1") if f"{n}.gain" in w and spec.norm == "layer"), "")
    if not norm:
        return np.asarray(~rows.any(axis=1) & ~bias.any(axis=1))
    read = rows * w[f"{norm}.gain"].T
    added = rows * w[f"{norm}.bias"].T if f"{norm}.bias" in w else 0 * rows
    total, sizes = bias + added.sum(axis=1, keepdims=True), np.concatenate([added, bias], axis=1)
    alone = _zero(read - read.mean(axis=1, keepdims=True), read, -1, unit)
    return np.asarray(alone & _zero(total, sizes, -1, SUMMED / ROUNDINGS * unit))


def _centred(spec: Transformer, x: Array) -> Array:
    """What is written, without its mean if no norm reads that."""
    return np.asarray(x - x.mean(axis=-2, keepdims=True)) if unread_mean(spec) else x


def _zero(x: Array, of: Array, axis: int, unit: float) -> Array:
    """Where x is nothing but the rounding of a larger quantity."""
    left, whole = np.linalg.norm(x, axis=axis), np.linalg.norm(of, axis=axis)
    return np.asarray(left <= ROUNDINGS * unit * whole)
