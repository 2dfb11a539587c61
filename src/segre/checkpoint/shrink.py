"""The normal form without entries that follow from the others, and how to get them back.

Left out are: one coordinate of what is orthogonal to a direction, as the symmetries have it; where
factors of heads are free up to any matrix, a square block that can be made the identity (if that
is well conditioned); where the basis of the stream is free, half of a symmetric matrix; tensors
that are constant. The scales of rotary planes and of units stay: to say which entry is left out
would take as much room as the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from segre.checkpoint.elements import weights
from segre.checkpoint.layout import Tensors
from segre.fields.interface import Array
from segre.symmetry.basis import GAINS, Basis
from segre.symmetry.compact import of_layer, stream_freedom
from segre.symmetry.constants import Constants, Slack
from segre.symmetry.reduction import reducible
from segre.symmetry.space import FloatWeights, Tensor
from segre.symmetry.special import Mean
from segre.transformer.spec import Transformer
from segre.transformer.tensors import CONSTANTS, part_shapes

WORST = 2.0**-17  # relative error that a gauge may cause: condition number times rounding error
STILL = "still_K"  # the name of keys that do not turn, where a part of a head does
TABLES = (("embed", "positions"), ("embed", "types"))
Uniform = dict[str, list[Any]]  # tensors of one number, by name: the number, and the shape


@dataclass
class Shrinker:
    """Leaves entries out, part by part."""

    spec: Transformer
    roundoff: float
    dropped: int = 0
    kept: list[str] = field(default_factory=list)  # what was not left out, and why
    constants: Uniform = field(default_factory=dict)
    _gains: dict[Tensor, Array] = field(default_factory=dict)  # of the parts so far

    def part(self, part: str, w: Tensors) -> Tensors:
        """The arrays to store for a part of the normal form."""
        out = dict(w)
        self._gains |= _gains(part, w)
        for name, rule in _rules(self.spec, part, w, self._gains.__getitem__):
            out[name] = rule.out(out[name])
        for pair, one in _free_pairs(self.spec, part):
            self._identity_block(part, pair, one, out)
        for name, value in list(out.items()):
            if value.size > 1 and (value == value.flat[0]).all():
                self.constants[f"{part}/{name}"] = [float(value.flat[0]), list(value.shape)]
                del out[name]
        numbers = sum(x.size for name, x in out.items() if _weights(name))
        self.dropped += sum(x.size for name, x in w.items() if _weights(name)) - numbers
        return out

    def _identity_block(self, part: str, pair: str, one: Basis, w: Tensors) -> None:
        """Make a square block of each right factor the identity, and leave it out."""
        name, free = f"W_{pair}", np.s_[..., one.start :, one.start :]
        right = w[name][:, 0, one.start :]
        pivots = np.stack([_pivots(head) for head in right])
        square = np.take_along_axis(right, pivots[:, None], axis=2)
        worst = float(np.linalg.cond(square).max())
        if not worst * self.roundoff <= WORST:
            self.kept.append(
                f"layer {part}: blocks of {'values' if pair == 'V' else 'keys'}, condition number "
                f"{worst:.3g} (allowed {WORST / self.roundoff:.3g})"
            )
            return
        w[f"pivots_{pair}"] = pivots.astype(np.uint16 if right.shape[-1] < 1 << 16 else np.uint32)
        M, inverse = one.identity(self.spec), one.identity(self.spec)
        M[free], inverse[free] = np.linalg.inv(square), square
        whole = (port for port in one.ports if w[port.tensor[1]].shape[port.axis] == one.width)
        own = FloatWeights.of(self.spec, part, w)
        replace(one, ports=tuple(whole)).act_by(own, M, inverse)
        w.update(own.part(part))
        turns, changed = w[name][..., : one.start, :], w[name][:, 0, one.start :]
        rest = np.take_along_axis(changed, _others(pivots, right)[:, None], axis=2)
        w.update({STILL: rest, name: turns} if one.start else {name: rest})


@dataclass
class Expander:
    """Puts entries back, part by part: a point of the fiber, though not the normal form."""

    spec: Transformer
    constants: Uniform
    stored: Callable[[str], Tensors]  # the arrays of a part
    _gains: dict[Tensor, Array] = field(default_factory=dict)

    def part(self, part: str) -> Tensors:
        """The tensors of a part."""
        w = self._with_constants(part)
        for pair, one in _free_pairs(self.spec, part):
            if f"pivots_{pair}" in w:
                name, pivots = f"W_{pair}", w.pop(f"pivots_{pair}").astype(np.int64)
                full = _with_identity(w.pop(STILL if one.start else name), pivots)[:, None]
                w[name] = np.concatenate([w[name], full], axis=-2) if one.start else full
        for name, rule in reversed(list(_rules(self.spec, part, w, self._gain))):
            w[name] = rule.back(w[name])
        return w

    def _with_constants(self, part: str) -> Tensors:
        w = dict(self.stored(part))
        for name, (value, shape) in self.constants.items():
            where, _, own = name.partition("/")
            if where == part:
                w[own] = np.full(shape, value)
        self._gains |= _gains(part, w)
        return w

    def _gain(self, tensor: Tensor) -> Array:
        if tensor not in self._gains:
            self._with_constants(tensor[0])
        return self._gains[tensor]


def _gains(part: str, w: Tensors) -> dict[Tensor, Array]:
    return {(part, name): x for name, x in w.items() if name.endswith(GAINS)}


def _weights(name: str) -> bool:
    """Whether an array has weights in it."""
    return not name.startswith("pivots") and name not in CONSTANTS


def _free_pairs(spec: Transformer, part: str) -> Iterator[tuple[str, Basis]]:
    """Right factors that are free up to any matrix, and what acts on them."""
    group = {} if part in ("embed", "head") else of_layer(spec, part)
    for pair, names in (("V", ("vo",)), ("K", ("still", "qk"))):
        one = next((group[name] for name in names if name in group), None)
        if isinstance(one, Basis) and one.group == "o":
            yield pair, one


def _pivots(rows: Array) -> Array:
    """Columns that span best, in order: those that a pivoted QR factorisation takes first."""
    from scipy.linalg import qr

    return np.sort(np.asarray(qr(rows, mode="r", pivoting=True)[1][: len(rows)]))


def _others(pivots: Array, right: Array) -> Array:
    return np.stack([np.setdiff1d(np.arange(right.shape[-1]), own) for own in pivots])


def _with_identity(rest: Array, pivots: Array) -> Array:
    heads, n, width = rest.shape
    out = np.zeros((heads, n, width + n))
    np.put_along_axis(out, pivots[:, None], np.eye(n)[None], axis=2)
    np.put_along_axis(out, _others(pivots, out)[:, None], rest, axis=2)
    return out


# --- entries that follow linearly ---------------------------------------------------------------


@dataclass
class Rule:
    """How entries of a tensor are left out, and put back."""

    out: Callable[[Array], Array]
    back: Callable[[Array], Array]


def _rules(
    spec: Transformer, part: str, w: Tensors, gain: Callable[[Tensor], Array]
) -> Iterator[tuple[str, Rule]]:
    """What follows from the rest of a tensor of the normal form, in the order of leaving out."""
    stream = stream_freedom(spec) == "orthogonal" and spec.norm == "rms" and spec.vocab >= spec.d
    folded = {"tokens": (spec.d, spec.vocab)} if stream else {}
    folded |= {"A_Q": (spec.qrank, spec.d), "A_K": (spec.kvrank, spec.d)}
    for name, shape in folded.items():
        if name in w:
            yield name, _half(*shape)
    for (where, name), axis, directions in _empty(spec, part, gain):
        if where == part and name in w:
            yield name, _orthogonal(directions, axis)


def _empty(
    spec: Transformer, part: str, gain: Callable[[Tensor], Array]
) -> Iterator[tuple[Tensor, int, Array]]:
    """Along which directions tensors of a part have nothing, since their symmetries removed it."""
    every = reducible(spec)
    sources = {one.sources[-1].tensor: one for one in every if isinstance(one, Constants)}
    zero = {tensor for tensor in sources if tensor[0] == "embed" and tensor not in TABLES}
    for one in every:
        if isinstance(one, Basis) and one.group == "shear":
            yield one.ports[0].tensor, -2, np.ones((1, one.width))
        if isinstance(one, Mean) and one.last is not None:
            yield one.source, -2, np.ones((1, spec.d))
        if not isinstance(one, Slack) or one.port.tensor[0] != part or one.forms.spanned:
            continue
        if one.port.tensor not in zero:
            own = {tensor: gain(tensor) for tensor in one.needed if tensor[1].endswith(GAINS)}
            yield one.port.tensor, one.port.axis, one.directions(FloatWeights(spec, own))
    yield from _without_constants(spec, sources)


def _without_constants(
    spec: Transformer, sources: dict[Tensor, Constants]
) -> Iterator[tuple[Tensor, int, Array]]:
    """The same for tensors that add constants: tables have a mean of zero, biases are zero."""
    for tensor, constants in sources.items():
        if tensor in TABLES:
            used = part_shapes(spec, "embed")[tensor[1]][1]
            used -= spec.unused_positions if tensor == TABLES[0] else 0
            yield tensor, -1, np.ones((1, used))
        elif constants.start:
            yield tensor, -2, np.eye(constants.width)[constants.start :]


def _orthogonal(directions: Array, axis: int) -> Rule:
    """Slices along an axis are orthogonal to directions: for each, one coordinate follows."""
    at, width = np.abs(directions).argmax(axis=1), directions.shape[1]
    rest = np.setdiff1d(np.arange(width), at)
    factors = 0.0 - directions[:, rest] / directions[range(len(at)), at][:, None]

    def back(kept: Array) -> Array:
        moved = np.moveaxis(kept, axis, -1)
        full = np.empty((*moved.shape[:-1], width))
        full[..., rest], full[..., at] = moved, moved @ factors.T
        return np.moveaxis(full, -1, axis)

    return Rule(lambda full: np.take(full, rest, axis), back)


def _half(d: int, columns: int) -> Rule:
    """The folded table is symmetric: what is below the diagonal of its first block follows."""
    lower = np.tril_indices(d, -1)
    below = np.zeros((d, columns), bool)
    below[lower] = True

    def back(rest: Array) -> Array:
        table = np.zeros(below.shape)
        table[~below] = rest
        by = weights(columns)
        padded = np.concatenate([table * by, np.zeros((d, -columns % d))], axis=1)
        folded = padded.reshape(d, -1, d).sum(axis=1)
        table[lower] = (folded.T - folded)[lower] / by[lower[1]]
        return table

    return Rule(lambda table: table[~below], back)
