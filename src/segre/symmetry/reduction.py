"""Which element is chosen for what, and in which order: weights reduced part by part.

Signs come first, then constants, gains, what has no effect, and factors. The elements are recorded,
so that all can be undone.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain

import numpy as np

from segre.fields.interface import Array
from segre.symmetry.action import Actor, Partwise, Read, actors
from segre.symmetry.basis import Basis
from segre.symmetry.constants import Constants, Entries, Slack
from segre.symmetry.normal import fix
from segre.symmetry.orders import Order, gain_orders, sign_orders
from segre.symmetry.space import FloatWeights, Tensor
from segre.symmetry.special import CommonForm, Mean, UnseenShift, ValueKernel
from segre.symmetry.wiring import layer_parts
from segre.transformer.spec import Transformer

BALANCED = ("gl", "torus", "planes", "plane-scales")
MAP = ("embed", "W_E")
ROUTED = -3  # the axis of experts
UNSURE = 4  # gains of so many rounding errors may have either sign, and are left as they are


class Reduction(Partwise):
    """Removes free choices part by part; what is within `slack` of none stays as it is."""

    def __init__(
        self,
        spec: Transformer,
        read: Read,
        slack: float = 0.0,
        *,
        measured: bool = False,
        gains_only: bool = False,
        roundoff: float = 0.0,
    ) -> None:
        """`read` gives a tensor of the model as it is."""
        super().__init__(spec, read, of_gains(spec) if gains_only else reducible(spec))
        self.slack, self.measured, self.near = slack, measured, UNSURE * roundoff
        self._signs: dict[Tensor, Array] = {}
        self.shares: dict[Tensor, float] = {}  # of tensors without effect, if they are `measured`

    def chosen(self, number: int, one: Actor, w: FloatWeights) -> Array:  # noqa: ARG002
        """The element that leads to the normal form, by the weights."""
        if isinstance(one, Order) and (one.kind == "one sign" or _spread(one)):
            signs = [self._sign(one, tensor) for tensor in one.by]
            out = one.of(signs=np.prod(signs, axis=0) if signs else None)
            one.act(w, out)
            return out
        for tensor in _determined_by(one):
            if tensor not in w.tensors:
                w.tensors[tensor] = self.read(tensor)
        if self.measured and isinstance(one, Slack) and one.port.axis > ROUTED:
            value, D = w(*one.port.tensor), one.directions(w)
            out = fix(one, w, self.slack)
            if len(D) == 1:
                size = float(np.linalg.norm(value))
                self.shares[one.port.tensor] = float(np.linalg.norm(out)) / size if size else 0.0
            return out
        return fix(one, w, self.slack)

    def _sign(self, one: Order, tensor: Tensor) -> Array:
        """The sign of a gain as it is stored, or of its sum; 1 where rounding can change it."""
        if tensor not in self._signs:
            gain = self.read(tensor)[:, 0]
            gain = (
                np.where(unsure(gain, self.near), 0.0, gain) if one.kind == "signs" else gain.sum()
            )
            self._signs[tensor] = np.where(gain < 0, -1.0, 1.0)
        return self._signs[tensor]


def unsure(gain: Array, near: float) -> Array:
    """Which gains are so small that rounding may have changed their sign.

    Some files have a gain less 1, so that the error is at least that of numbers like 1.
    """
    return np.asarray(np.abs(gain) <= near * max(1.0, float(np.abs(gain).max(initial=0.0))))


@lru_cache(maxsize=8)
def reducible(spec: Transformer) -> tuple[Actor, ...]:
    """What the normal form fixes, in order."""
    steps: list[list[Actor]] = [[] for _ in range(9)]
    for one in actors(spec):
        if (step := _step(one)) is not None:
            steps[step].append(one)
    steps[1] = [*_downstream([one for one in steps[1] if isinstance(one, Constants)])]
    steps[6] += [one for part in layer_parts(spec) for one in gain_orders(spec, part).values()]
    return (*sign_orders(spec), *chain.from_iterable(steps))


def _step(one: Actor) -> int | None:
    """When it is fixed; None if it is not. Signs of gains have step 6."""
    match one:
        case CommonForm():
            return 0
        case Constants():
            return 1
        case Mean(last=None):
            return None
        case Mean() | UnseenShift():
            return 2
        case Slack() | Entries():
            return 4 if one.tensors[0] == MAP else 6  # before what follows the map, or later
        case Basis(group="shear"):
            return 5
        case Basis():
            if one.vector is not None:
                return 3
            return 7 if one.group in BALANCED and not _spread(one) else None
        case ValueKernel():
            return 8
    return None


def _spread(one: Basis | Order) -> bool:
    """Whether it acts on several parts, so that none of them determines it."""
    return len({part for part, _ in one.tensors}) > 1


@lru_cache(maxsize=8)
def of_gains(spec: Transformer) -> tuple[Actor, ...]:
    """Of these, gains that can be 1, and the biases beside them."""
    gains = [one for one in reducible(spec) if isinstance(one, Basis) and one.vector]
    beside = {tensor for one in gains for tensor in one.tensors}
    return tuple(
        one
        for one in reducible(spec)
        if one in gains or (isinstance(one, Constants) and one.sources[-1].tensor in beside)
    )


def _downstream(constants: list[Constants]) -> list[Constants]:
    """Each before those whose sources it adds to."""
    out: list[Constants] = []
    while constants:
        taken = {tensor for one in constants for tensor in one.sinks}
        first = [x for x in constants if not any(b.tensor in taken for b in x.sources)]
        first = first or constants[:1]
        out += first
        constants = [one for one in constants if one not in first]
    return out


def _determined_by(one: Actor) -> tuple[Tensor, ...]:
    """The tensors that an element is chosen by."""
    if isinstance(one, Constants):
        return (one.sources[-1].tensor,)
    vector = one.vector if isinstance(one, Basis) else None
    if vector is not None:
        return (vector.tensor,)
    return one.tensors if isinstance(one, UnseenShift) else ()
