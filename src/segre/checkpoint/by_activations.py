"""The turn that brings one reduced checkpoint closest to another, by activations on tokens.

Reduced weights have the same function, so they are run like any others, part by part. The basis of
the stream is found from hidden states: those after every layer vote for one basis, because a
residual stream has no other. A map W that reads the stream is then compared by its values W X on
all tokens instead of its entries, and a unit by its activations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from segre.checkpoint.elements import assignment, of_length_1, signed_assignment
from segre.checkpoint.layout import Tensors
from segre.checkpoint.likeness import unit_elements
from segre.checkpoint.match import Finder, best_stream, match_layer, match_stream
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.reduce import reduced
from segre.checkpoint.units import NAMES, dense, signed
from segre.fields import Real
from segre.fields.interface import Array
from segre.symmetry.compact import Elements, act, of_stream, stream_freedom
from segre.transformer.forward import Place, Tokens, layer_by_layer
from segre.transformer.layers import SHARED
from segre.transformer.spec import Transformer

READERS = ("W_Q", "W_K", "W_V")  # of the stream, in a layer without latents
OF_LATENTS = ("A_Q", "A_K", "R_K")
READ, UNITS = "ln1.hook_normalized", "mlp.hook_post"  # points: what attention reads, and units
WATCHED = (READ, UNITS, SHARED)
POINTS = {"W": UNITS, "S": SHARED}  # by what names of tensors begin with


# --- running reduced weights ----------------------------------------------------------------------


@dataclass
class OnePart:
    """The tensors of one part at a time, as a source of weights."""

    spec: Transformer
    tensors: Tensors = field(default_factory=dict)

    def part(
        self, _part: str, names: Iterable[str] | None = None, dtype: npt.DTypeLike = np.float64
    ) -> Tensors:
        """The tensors, or only the named ones."""
        wanted = self.tensors if names is None else names
        return {n: self.tensors[n].astype(dtype, copy=False) for n in wanted if n in self.tensors}

    def columns(self, name: str, which: Array, dtype: npt.DTypeLike = np.float64) -> Array:
        """Some columns of an embedding table."""
        return np.asarray(self.tensors[name][:, which], dtype)


class Run:
    """A checkpoint that runs on tokens while its parts come, and what was seen in the last one."""

    def __init__(self, spec: Transformer, batches: Sequence[Tokens]) -> None:
        self.turn: Callable[[Array], Array] = lambda x: x  # of the stream, where the layers begin
        self.streams: dict[int, list[Array]] = {}  # by depth: (d, tokens), for every batch
        self.seen: dict[str, list[Array]] = {}  # by point: (..., rows, tokens)
        self._source = OnePart(spec)
        self._steps = layer_by_layer(self._source, batches, Real(), hook=self._keep)
        self._due = next(self._steps)

    def part(self, part: str, w: Tensors) -> None:
        """Run a part. Where nothing is embedded, the stream begins with its inputs."""
        self.streams, self.seen, due = {}, {}, ""
        while due != part:
            due = self._due
            self._source.tensors = w if due == part else {}
            self._due = next(self._steps, "")

    def _keep(self, place: Place, name: str, x: Array) -> Array:
        depth = place.depth(name)
        if depth == 0:
            x = self.turn(x)
        if depth is not None:
            self.streams.setdefault(depth, []).append(_beside(x)[0, 0])
        elif name in WATCHED:
            self.seen.setdefault(name, []).append(_beside(x))
        return x


def _beside(x: Array) -> Array:
    """Columns of all inputs (inputs, ..., rows, t) side by side: (..., rows, tokens)."""
    x = np.moveaxis(x, 0, -2)
    return x.reshape(*x.shape[:-2], -1)


# --- the stream -----------------------------------------------------------------------------------


def stream_by_activations(
    one: Model, two: Model, batches: Sequence[Tokens], progress: Progress = no_progress
) -> Elements:
    """The basis in which the hidden states of the second are closest to those of the first."""
    spec = one.spec
    ours, theirs = Run(spec, batches), Run(spec, batches)
    votes: Array = np.zeros((spec.d, spec.d))
    known: Elements = {}
    for done, (a, b) in enumerate(zip(reduced(one), reduced(two), strict=True)):
        progress("hidden states", done, len(one.parts))
        if a.part == "embed":
            known = match_stream(spec, a.tensors, b.tensors)
        if a.part != "head":
            ours.part(a.part, a.tensors)
            theirs.part(b.part, b.tensors)
            for pair in zip(ours.streams.values(), theirs.streams.values(), strict=True):
                votes = votes + _vote(spec, *(np.concatenate(x, axis=-1) for x in pair))
    return known if stream_freedom(spec) == "none" else known | best_stream(spec, votes)


def _vote(spec: Transformer, one: Array, two: Array) -> Array:
    """Inner products (d, d) of hidden states (d, tokens); every token counts alike.

    Where only orders are free, what all tokens have in common is taken off: it lies in a few
    coordinates, which would decide for all.
    """
    both = []
    for x in (one, two):
        own = of_length_1(x - x.mean(axis=0) if spec.norm == "layer" else x, axis=0)
        free = stream_freedom(spec) == "orthogonal"
        both.append(own if free else own - own.mean(axis=1, keepdims=True))
    size = float(np.linalg.norm(both[0]) * np.linalg.norm(both[1]))
    return np.asarray(both[0] @ both[1].T / max(size, 1e-300))


# --- layers ---------------------------------------------------------------------------------------


class Watched(Finder):
    """Matches heads and units by activations on tokens, in a given basis."""

    def __init__(self, spec: Transformer, batches: Sequence[Tokens], basis: Elements) -> None:
        super().__init__(basis)
        self.runs = Run(spec, batches), Run(spec, batches)

    def stream(
        self, spec: Transformer, one: Tensors, two: Tensors, _unembedded: Array | None
    ) -> Elements:
        """The given basis, in which the second model is run from here on."""
        for run, w in zip(self.runs, (one, two), strict=True):
            run.part("embed", w)
        if "stream" in self.basis:
            stream, by = of_stream(spec)["stream"], self.basis["stream"]
            self.runs[1].turn = lambda x: stream.on(by, x)
        return self.basis

    def layer(self, spec: Transformer, part: str, one: Tensors, two: Tensors) -> None:
        """Bring heads and units of a layer of `two` near to those of `one`, in place."""
        seen = []
        for run, w in zip(self.runs, (one, two), strict=True):
            run.part(part, w)
            seen.append({name: np.concatenate(x, axis=-1) for name, x in run.seen.items()})
        out = match_layer(spec, part, _values(one, seen[0]), _values(two, seen[1]), self.near)
        out |= _units(spec, part, out, (one, two), seen)
        act(spec, part, out, two)
        self.layers[part] = out


def _values(w: Tensors, seen: Tensors) -> Tensors:
    """The tensors of a layer, with values on tokens in the place of maps that read the stream."""
    out = dict(w)
    x: Array = seen[READ].reshape(seen[READ].shape[-2:])
    for name in OF_LATENTS if "A_K" in w else READERS:
        if name in w:
            bias = out.pop(name.replace("W", "b"), 0.0) if name in READERS else 0.0
            out[name] = (w[name] @ x + bias) / x.shape[-1] ** 0.5
    return out


def _units(
    spec: Transformer, part: str, found: Elements, w: tuple[Tensors, Tensors], seen: list[Tensors]
) -> Elements:
    """Units assigned to units, of every pair of experts that was found, or of the layer."""
    out: Elements = {}
    for kind, point in POINTS.items():
        if (name := NAMES[kind]) in found:
            held = [x[point].reshape(-1, *x[point].shape[-2:]) for x in seen]
            down = [np.stack([own["W_down"] for own in dense(x, kind)]) for x in w]
            if "experts" in found and point == UNITS:
                order = found["experts"][0].astype(int)
                held[1], down[1] = held[1][order], down[1][order]
            every = [_match(spec, *each) for each in zip(*held, *down, strict=True)]
            out |= unit_elements(spec, part, name, every)
    return out


def _match(
    spec: Transformer, one: Array, two: Array, down1: Array, down2: Array
) -> tuple[Array, Array]:
    """Order and signs of units (units, tokens) by correlation; silent ones by what they write."""
    a, b = (_singles(x - x.mean(axis=1, keepdims=True)) for x in (one, two))
    alike = a @ b.T
    written = _singles(down1.T) @ _singles(down2.T).T
    silent: Array = np.logical_or.outer(~a.any(axis=1), ~b.any(axis=1))
    seen = np.where(silent, written, alike)
    if signed(spec):
        return signed_assignment(np.where(silent, np.abs(written), alike * written), seen)
    return assignment(seen), np.ones(len(seen))


def _singles(rows: Array) -> Array:
    return of_length_1(rows).astype(np.float32)
