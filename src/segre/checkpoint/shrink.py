"""The normal form without entries that follow from the others, and how to get them back.

Left out are: one coordinate of what is orthogonal to a known direction; where factors of heads
are free up to any matrix, a square block that can be made the identity (if that is well
conditioned); where the basis of the stream is free, half of a symmetric matrix; tensors that are
constant. The scales of rotary planes and of units stay: to say which entry is left out would take
as much room as the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from segre.checkpoint.elements import weights
from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import free_key_biases, met_keys, queries, set_still, still, turning
from segre.checkpoint.reduce import away_from, free_mean
from segre.checkpoint.served import joint
from segre.fields.interface import Array
from segre.symmetry.compact import stream_freedom
from segre.symmetry.means import written
from segre.symmetry.wiring import norm_before, readers
from segre.transformer.spec import Transformer
from segre.transformer.tensors import CONSTANTS, parts

WORST = 2.0**-17  # relative error that a gauge may cause: condition number times rounding error
STILL = "still_K"  # the name of keys that do not turn, where a part of a head does
Constants = dict[str, list[Any]]  # by name: the number, and the shape


@dataclass
class Shrinker:
    """Leaves entries out, part by part."""

    spec: Transformer
    roundoff: float
    dropped: int = 0
    kept: list[str] = field(default_factory=list)  # what was not left out, and why
    constants: Constants = field(default_factory=dict)
    gain: Array | None = None  # of the last LayerNorm on the stream

    def part(self, part: str, w: Tensors) -> Tensors:
        """The arrays to store for a part of the normal form."""
        out = dict(w)
        for name, rule in _rules(self.spec.at(part), part, out, self.gain):
            out[name] = rule.out(out[name])
        if not (part == "embed" and self.spec.embed):
            self.gain = _last_gain(out, self.gain)
        for pair in _free_pairs(self.spec, part):
            self._identity_block(part, pair, out)
        for name, value in list(out.items()):
            if value.size > 1 and (value == value.flat[0]).all():
                self.constants[f"{part}/{name}"] = [float(value.flat[0]), list(value.shape)]
                del out[name]
        numbers = sum(x.size for name, x in out.items() if _weights(name))
        self.dropped += sum(x.size for name, x in w.items() if _weights(name)) - numbers
        return out

    def _identity_block(self, part: str, pair: str, w: Tensors) -> None:
        """Make a square block of each right factor the identity, and leave it out."""
        spec = self.spec.at(part)
        right = still(spec, w["W_K"])[:, 0] if pair == "K" else w["W_V"][:, 0]
        pivots = np.stack([_pivots(head) for head in right])
        square = np.take_along_axis(right, pivots[:, None], axis=2)
        worst = float(np.linalg.cond(square).max())
        if not worst * self.roundoff <= WORST:
            name = {"V": "values", "K": "keys"}[pair]
            self.kept.append(
                f"layer {part}: blocks of {name}, condition number {worst:.3g} "
                f"(allowed {WORST / self.roundoff:.3g})"
            )
            return
        w[f"pivots_{pair}"] = pivots.astype(np.uint16 if right.shape[-1] < 1 << 16 else np.uint32)
        if pair == "K":
            asked = square.swapaxes(-1, -2)[:, None] @ still(spec, queries(w))
            met = np.linalg.solve(square[:, None], still(spec, met_keys(spec, w)))
            set_still(spec, w, asked, met)
            changed = still(spec, w["W_K"])[:, 0]
        else:
            changed = np.linalg.solve(square, right)
            w["W_O"] = w["W_O"] @ square[:, None]
            if "b_V" in w:
                w["b_V"] = np.linalg.solve(square, w["b_V"][:, 0])[:, None]
        rest = np.take_along_axis(changed, _others(pivots, right)[:, None], axis=2)
        if pair == "K" and turning(spec):
            w[STILL], w["W_K"] = rest, w["W_K"][..., : turning(spec), :]
        else:
            w[f"W_{pair}"] = rest


@dataclass
class Expander:
    """Puts entries back, part by part: a point of the fiber, though not the normal form."""

    spec: Transformer
    constants: Constants
    stored: Callable[[str], Tensors]  # the arrays of a part

    def part(self, part: str) -> Tensors:
        """The tensors of a part."""
        w = self._with_constants(part)
        for pair in _free_pairs(self.spec, part):
            if f"pivots_{pair}" in w:
                pivots = w.pop(f"pivots_{pair}").astype(np.int64)
                if pair == "K" and turning(self.spec.at(part)):
                    rest = _with_identity(w.pop(STILL), pivots)[:, None]
                    w["W_K"] = np.concatenate([w["W_K"], rest], axis=-2)
                else:
                    w[f"W_{pair}"] = _with_identity(w[f"W_{pair}"], pivots)[:, None]
        gain = None
        if part != "embed" and (self.spec.place == "post" or _bare(self.spec, part, "attention")):
            every = parts(self.spec)
            before = every[every.index(part) - 1]
            if before != "embed" or not self.spec.embed:
                gain = _last_gain(self._with_constants(before), None)
        for name, rule in reversed(list(_rules(self.spec.at(part), part, w, gain))):
            w[name] = rule.back(w[name])
        return w

    def _with_constants(self, part: str) -> Tensors:
        w = dict(self.stored(part))
        for name, (value, shape) in self.constants.items():
            where, _, own = name.partition("/")
            if where == part:
                w[own] = np.full(shape, value)
        return w


def _weights(name: str) -> bool:
    """Whether an array has weights in it."""
    return not name.startswith("pivots") and name not in CONSTANTS


def _free_pairs(spec: Transformer, part: str) -> tuple[str, ...]:
    """Right factors that are free up to any matrix."""
    if part in ("embed", "head"):
        return ()
    return ("V", "K") if spec.at(part).still and not spec.qknorm else ("V",)


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
    spec: Transformer, part: str, w: Tensors, gain: Array | None
) -> Iterator[tuple[str, Rule]]:
    if "positions" in w and spec.offset:
        yield "positions", _unused(spec.offset)
    free = stream_freedom(spec) == "orthogonal" and spec.norm == "rms"
    if part == "embed" and free and spec.vocab >= spec.d:
        yield "tokens", _half(spec.d, spec.vocab)
    if free_key_biases(spec, w) and turning(spec):
        yield "b_K", _turning(spec)
    for name, rank in (("A_Q", spec.qrank), ("A_K", spec.kvrank)):
        if name in w:
            yield name, _half(rank, spec.d)
    if "W_R" in w and spec.softmax_router:
        for name in ("W_R", "c_R"):
            if name in w:
                yield name, _orthogonal(np.ones(spec.experts), 0)
    if spec.norm != "layer":
        return
    shown = spec.embnorm or spec.place != "post"
    tables = ("tokens", "W_P", "positions", "types") if shown else ()
    wide = spec.embed or spec.d
    for name in tables:
        if name in w and not (name == "tokens" and spec.tied):
            yield name, _orthogonal(np.ones(wide), -2)
    for kind in _sublayers(spec, part):
        for _, name in (port.tensor for port in written(spec, (part, kind))):
            if free_mean(spec, name, last=part == str(spec.layers)):
                yield name, _orthogonal(np.ones(spec.d), -2)
    if "W_E" in w:
        yield "W_E", _orthogonal(np.ones(wide), -1)
        if not joint(spec):
            yield "W_E", _orthogonal(np.ones(spec.d), -2)
    if "types" in w:
        yield "types", _orthogonal(np.ones(spec.types), -1)
    if "positions" in w and not spec.patch and (not spec.tied or _shifted(spec)):
        yield "positions", _orthogonal(np.ones(spec.positions - spec.offset), -1)
    normed = spec.headnorm if spec.transform else "b_U" in w and not spec.pooler
    if "W_U" in w and normed:
        yield "W_U", _orthogonal(np.ones(spec.head_width if spec.transform else spec.d), -1)
    for kind in _sublayers(spec, part):
        own = w["post1.gain"] if kind == "mlp" and spec.place == "post" else gain
        if spec.place != "post" and not _bare(spec, part, kind):
            own = np.ones((spec.d, 1))
        if own is not None:  # else the first layer, which reads embeddings without a norm
            for reader in readers(spec, (part, kind)):
                yield reader.weight, _orthogonal(away_from(own)[:, 0], -1)
    for name in ("W_pool", "W_T"):
        if name in w:
            own = gain
            if name == "W_pool" and spec.place != "post" and spec.output == "hidden":
                own = w["norm.gain"]  # hidden states are seen: the norm keeps its gain
            elif spec.place != "post":
                own = np.ones((spec.d, 1))
            assert own is not None
            yield name, _orthogonal(away_from(own)[:, 0], -1)


def _sublayers(spec: Transformer, part: str) -> list[str]:
    """Attention and MLP of a part, if it is a layer."""
    kinds = ["attention"] if spec.mlp == "none" else ["attention", "mlp"]
    return [] if part in ("embed", "head") else kinds


def _shifted(spec: Transformer) -> bool:
    """Whether the biases of the first layer take what all positions have in common."""
    plain = spec.place == "post" and not spec.embnorm and not spec.embed
    return plain and spec.bias == "all" and spec.pos == "learned"


def _bare(spec: Transformer, part: str, kind: str) -> bool:
    """Whether a sublayer reads what the norm of the embeddings puts out, and no norm of its own."""
    return kind in _sublayers(spec, part) and norm_before(spec, (part, kind)) is None


def _last_gain(w: Tensors, gain: Array | None) -> Array | None:
    """The gain of the norm that a post-norm stream went through last."""
    return w.get("post2.gain", w.get("post1.gain", w.get("norm.gain", gain)))


def _orthogonal(direction: Array, axis: int) -> Rule:
    """Slices along an axis are orthogonal to a direction: one coordinate follows."""
    at = int(np.abs(direction).argmax())
    factors = -np.delete(direction, at) / direction[at]

    def back(rest: Array) -> Array:
        moved = np.moveaxis(rest, axis, -1)
        missing = moved @ factors
        return np.moveaxis(np.insert(moved, at, missing, axis=-1), -1, axis)

    return Rule(lambda full: np.delete(full, at, axis=axis), back)


def _turning(spec: Transformer) -> Rule:
    """Key biases are zero in the dimensions that do not turn."""

    def back(rest: Array) -> Array:
        none = np.zeros((*rest.shape[:-2], spec.still, rest.shape[-1]))
        return np.concatenate([rest, none], axis=-2)

    return Rule(lambda full: full[..., : turning(spec), :], back)


def _unused(offset: int) -> Rule:
    """Positions that no token has are 0."""

    def back(used: Array) -> Array:
        return np.concatenate([np.zeros((len(used), offset)), used], axis=1)

    return Rule(lambda full: full[:, offset:], back)


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
