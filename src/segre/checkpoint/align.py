"""One checkpoint moved towards another by symmetries, block by block.

The second is reduced, turned into the basis of the first, and given the free choices of the first
(gains, means, gauges of heads, scales of units), or those that bring it nearest. Its function stays
the same. Copies of one function coincide with the first up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from segre.checkpoint.by_activations import Watched, stream_by_activations
from segre.checkpoint.elements import signs_of
from segre.checkpoint.function import require_same_architecture, require_same_scale
from segre.checkpoint.layout import Tensors
from segre.checkpoint.match import (
    Finder,
    aligned_pairs,
    best_stream,
    centred,
    settled,
    stream_products,
)
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.reduce import Choose, Reduced, restore
from segre.checkpoint.sizes import blocks
from segre.fields.interface import Array
from segre.symmetry.action import Actor
from segre.symmetry.basis import Basis
from segre.symmetry.compact import after, stream_freedom
from segre.symmetry.normal import EXACT
from segre.symmetry.orders import Order
from segre.symmetry.space import FloatWeights, rotary_planes
from segre.transformer.forward import Tokens
from segre.transformer.tensors import CONSTANTS, of_mlp

Written = TypeVar("Written")
NEAR = 4.0  # rounding errors by which tables that are copies of each other may be apart
NEIGHBOURS = 0.9  # a cosine: by activations, only checkpoints this near stay as they are
SUBLAYERS = {"norm1": "attention", "norm2": "mlp"}  # by the norm before each
_KEPT = 0.05  # a reader agrees when its distance is below this part of the largest one's


# --- distances ------------------------------------------------------------------------------------


@dataclass
class Change:
    """The difference of two groups of tensors, as sums of squares."""

    size: float = 0.0  # of the first
    raw: float = 0.0  # of the difference as the files are
    after: float = 0.0  # of the difference in one gauge

    def add(self, *squares: float) -> None:
        """Add those of a tensor, in the order of the fields."""
        for item, square in zip(fields(self), squares, strict=False):
            setattr(self, item.name, getattr(self, item.name) + square)

    @property
    def relative(self) -> float:
        """The distance in a common gauge, relative to the first."""
        return (self.after / self.size) ** 0.5 if self.size else float(self.after > 0)

    @property
    def relative_raw(self) -> float:
        """The distance of the files as stored."""
        return (self.raw / self.size) ** 0.5 if self.size else float(self.raw > 0)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"distance": self.relative, "raw": self.relative_raw}


@dataclass
class Nearness(Change):
    """The same of a block, with the angle: it needs the squares of the second."""

    size_raw: float = 0.0
    size_after: float = 0.0
    name: str = "whole model"

    def distances(self) -> tuple[float, float]:
        """Before and after, relative to the size of the first."""
        return self.relative_raw, self.relative

    def cosines(self) -> tuple[float, float]:
        """Before and after: |t - x|^2 = |t|^2 + |x|^2 - 2 t x."""
        pairs = (self.raw, self.size_raw), (self.after, self.size_after)
        before, after = (
            (self.size + size - apart) / 2 / max((self.size * size) ** 0.5, 1e-300)
            for apart, size in pairs
        )
        return before, after

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        both = {"distance": self.distances(), "cosine": self.cosines()}
        pairs = {key: dict(zip(("before", "after"), x, strict=True)) for key, x in both.items()}
        return {"block": self.name, **pairs}


def squares(one: Array, before: Array, after: Array) -> list[float]:
    """Of a tensor, its differences from two others, and these, in the order of `Nearness`."""
    out = np.zeros(5)
    for t, x, y in blocks(one, before, after):
        out += [np.vdot(v, v) for v in (t, t - x, t - y, x, y)]
    return [float(x) for x in out]


# --- alignment ------------------------------------------------------------------------------------


class FartherError(Exception):
    """Alignment would increase the distance between the checkpoints."""


def nearer(write: Callable[[], Written]) -> Written:
    """What is written with aligned checkpoints; again, where one is nearer as it is."""
    while True:
        with suppress(FartherError):
            return write()


class Alignment:
    """Aligns `two` to `one`; `blocks` has the distances once all parts are done.

    If that would increase the distance, `two` is to stay as it is: it is `still`.
    """

    def __init__(
        self,
        one: Model,
        two: Model,
        rounds: int = 1,
        progress: Progress = no_progress,
        batches: Sequence[Tokens] = (),
        *,
        still: bool = False,
    ) -> None:
        require_same_architecture(one, two)
        require_same_scale(one, two)
        self.one, self.two, self.rounds, self.progress = one, two, rounds, progress
        self.batches = batches  # by activations on these; by weights, if there are none
        self.still, self.near = still, NEAR * max(one.roundoff(), two.roundoff())
        self.blocks: dict[str, Nearness] = {}

    @property
    def total(self) -> Nearness:
        """All blocks together."""
        out = Nearness()
        for block in self.blocks.values():
            out.add(*(getattr(block, item.name) for item in fields(block)[:-1]))
        return out

    def parts(self) -> Iterator[tuple[str, Tensors]]:
        """The parts of the second checkpoint, aligned or as they are."""
        self.blocks = {}
        yield from self._unchanged() if self.still else self._aligned()
        before, after = self.total.distances()
        if after > before and (not self.batches or self.total.cosines()[0] > NEIGHBOURS):
            self.still = True
            raise FartherError

    def _unchanged(self) -> Iterator[tuple[str, Tensors]]:
        for part in self.two.parts:
            tensors = self.two.part(part)
            self._measure(part, tensors, self.one.part(part))
            yield part, tensors

    def _aligned(self) -> Iterator[tuple[str, Tensors]]:
        spec, finder = self.two.spec, self._finder()
        for a, b in aligned_pairs(self.one, self.two, finder):
            b.turn_beside(spec, finder.basis)
            restore(spec, a, b, self._choices(a, b))
            target = self.one.part(b.part)
            for name in (name for name in target if name.endswith(".gain")):
                exact = np.abs(b.tensors[name] - target[name]) <= EXACT * np.abs(target[name])
                b.tensors[name] = np.where(exact, target[name], b.tensors[name])
            self._restored(b.part, b.tensors, target)
            self._measure(b.part, b.tensors, target)
            yield b.part, b.tensors

    def _choices(self, _one: Reduced, _two: Reduced) -> Choose:
        """How the free choices of the second are found, from those of the first."""
        return nearest_choice

    def _restored(self, part: str, new: Tensors, target: Tensors) -> None:
        """What else is done to a part of the second, in place."""

    def _finder(self) -> Finder:
        """A basis of the stream that is best for all weights, not only for the tables.

        Tables that are copies of each other determine it. With activations, the first basis is best
        for hidden states, and there is one round less.
        """
        spec, finder = self.one.spec, Finder(centred=True)
        if self.batches:
            found = stream_by_activations(self.one, self.two, self.batches, self.progress)
            finder = Watched(spec, self.batches, found)
        if stream_freedom(spec) == "none":
            return finder
        for _ in range(self.rounds - bool(self.batches)):
            inner = np.zeros((spec.d, spec.d))
            for done, (a, b) in enumerate(aligned_pairs(self.one, self.two, finder)):
                copied = a.part == "embed" and not self.batches
                if copied and settled(spec, a.tensors, b.tensors, self.near):
                    return Finder(finder.basis)
                self.progress("basis of the stream", done, len(self.one.parts))
                rows = centred(a.tensors), centred(b.tensors)
                inner += stream_products(spec, a.part, *rows)
            basis = after(spec, best_stream(spec, inner), finder.basis)
            finder = Watched(spec, self.batches, basis) if self.batches else Finder(basis)
        return finder

    def _measure(self, part: str, new: Tensors, target: Tensors) -> None:
        old = self.two.part(part)
        for name, value in new.items():
            block = self._block(part, name)
            own = self.blocks.setdefault(block, Nearness(name=block))
            own.add(*squares(target[name], old[name], value))

    def _block(self, part: str, name: str) -> str:
        if part in ("embed", "head"):
            return {"embed": "embeddings", "head": "head"}[part]
        mlp = of_mlp(name) or name in CONSTANTS
        return f"layer {part} {'MLP' if mlp else 'attention'}"


# --- free choices ---------------------------------------------------------------------------------


def nearest_choice(one: Actor, like: Array, a: FloatWeights, b: FloatWeights) -> Array:
    """The element `like`, or scales with which `b` is nearest to `a` once they are put back.

    A gain g stands before what reads it, which is divided by g; a unit's scale multiplies what it
    reads and divides what it writes; so do scales of rotary planes for keys and queries.
    """
    if isinstance(one, Order):
        return nearest_signs(one, like, a, b)
    if not isinstance(one, Basis) or any(port.degree > 1 for port in one.ports):
        return like
    vector = one.vector
    if vector is None:
        gated = any(port.tensor[1].endswith("_gate") for port in one.ports)
        latent = one.group == "planes" and not one.copies
        free = one.group == "planes" or (one.group == "torus" and gated)
        return 1 / _scales(one, a, b) if free and not latent else like
    name = vector.tensor[1].removesuffix(".gain")
    rms = a.transformer.norm == "rms"
    if name in (*SUBLAYERS, "normq", "normk") or (name == "norm" and rms):
        return 1 / _gains(one, 1 / like, a, b)
    return like


def nearest_signs(one: Order, like: Array, a: FloatWeights, b: FloatWeights) -> Array:
    """Signs of a gain after a sublayer and of the rows that it is of: a gain near 0 has either."""
    if one.kind != "signs" or not one.by[0][1].startswith("post"):
        return like
    ports = (one.ports[0], one.ports[-1])
    return one.of(signs=signs_of(sum((p.rows(a, 0) * p.rows(b, 0)).sum(axis=1) for p in ports)))


def nearest_scale(p: Array, q: Array, r: Array, t: Array, *, positive: bool = False) -> Array:
    """Where p s^2 - 2 q s + r / s^2 - 2 t / s is least, for p, r > 0; 1 for the others.

    It is the root of a quartic.

    >>> nearest_scale(*np.array([[1.0], [2.0], [4.0], [2.0]])).round(6).tolist()
    [2.0]
    """
    known = (p > 0) & (r > 0)
    p, q, r, t = (np.where(known, x, 1.0) for x in (p, q, r, t))
    companion = np.zeros((*p.shape, 4, 4))
    companion[..., 0, :] = np.stack([q / p, np.zeros_like(p), -t / p, r / p], axis=-1)
    companion[..., [1, 2, 3], [0, 1, 2]] = 1
    roots = np.linalg.eigvals(companion)
    real = (np.abs(roots.imag) <= 1e-6 * np.abs(roots)) & (np.abs(roots) > 0)
    s = np.where(real, roots.real, 1.0)
    p, q, r, t = (x[..., None] for x in (p, q, r, t))
    value = p * s**2 - 2 * q * s + r / s**2 - 2 * t / s
    value = np.where(real & ((s > 0) | (not positive)), value, np.inf)
    best = np.take_along_axis(s, value.argmin(axis=-1)[..., None], axis=-1)[..., 0]
    return np.where(known & np.isfinite(value.min(axis=-1)), best, 1.0)


def _scales(one: Basis, a: FloatWeights, b: FloatWeights) -> Array:
    """Scales of what is written to units or planes; phases of planes are matched already."""
    every: list[Array] = []
    for ours, theirs in zip(one.sides(a), one.sides(b), strict=True):
        pairs = [*zip(ours, theirs, strict=True)]
        every.append(sum(((y * y).sum(axis=-1) for _, y in pairs), np.zeros(1)))
        every.append(sum(((x * y).sum(axis=-1) for x, y in pairs), np.zeros(1)))
    if one.group != "planes":
        return nearest_scale(*every)
    first, second = np.array(rotary_planes(a.transformer, one.turning)).T
    p, q, r, t = (total[..., first] + total[..., second] for total in every)
    return nearest_scale(p, q, r, t, positive=True).astype(complex)


def _gains(one: Basis, like: Array, a: FloatWeights, b: FloatWeights) -> Array:
    """The nearest gains; those of the first, where with them one reader agrees and others do not.

    A fine-tune of some readers leaves the gain and the other readers unchanged. The smallest
    distance would spread the change over all of them.
    """
    rows = [(port.rows(b, 0), port.rows(a, 0)) for port in one.ports if port.reads]
    sizes = np.array([(x**2).sum(axis=1) for x, _ in rows])
    inner = np.array([(x * y).sum(axis=1) for x, y in rows]).sum(axis=0)
    scales = nearest_scale(np.ones(len(like)), like, sizes.sum(axis=0), inner)
    apart = np.array([((x - y * like[:, None]) ** 2).sum(axis=1) for x, y in rows])
    relative = apart / np.maximum(sizes, 1e-300)
    kept = relative.min(axis=0) < _KEPT**2 * relative.max(axis=0)
    return np.where(kept, like, scales)
