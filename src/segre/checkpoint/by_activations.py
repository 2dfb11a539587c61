"""The turn that brings one reduced checkpoint closest to another, by activations on tokens.

The basis of the stream is found from hidden states: those after every layer vote for one basis,
because a residual stream has no other. A map W that reads the stream is then compared by its
values W X on all tokens instead of its entries, and a unit by its activations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from segre.checkpoint.activations import Run
from segre.checkpoint.assignment import assignment
from segre.checkpoint.layout import Tensors
from segre.checkpoint.match import best_stream, match_layer, match_stream
from segre.checkpoint.match_units import unit_elements
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.pairs import Finder
from segre.checkpoint.reduce import reduced
from segre.checkpoint.units import signed
from segre.fields.interface import Array
from segre.symmetry.compact import Elements, act, of_stream, stream_freedom
from segre.transformer.forward import Tokens
from segre.transformer.layers import SHARED
from segre.transformer.spec import Transformer

READERS = ("W_Q", "W_K", "W_V")  # of the stream, in a layer without latents
OF_LATENTS = ("A_Q", "A_K", "R_K")
READ, UNITS = "ln1.hook_normalized", "mlp.hook_post"  # points: what attention reads, and units
WATCHED = (READ, UNITS, SHARED)


def stream_by_activations(
    one: Model, two: Model, batches: Sequence[Tokens], progress: Progress = no_progress
) -> Elements:
    """The basis in which the hidden states of the second are closest to those of the first."""
    spec = one.spec
    runs = Run(spec, batches), Run(spec, batches)
    votes: Array = np.zeros((spec.d, spec.d))
    known: Elements = {}
    for done, (a, b) in enumerate(zip(reduced(one), reduced(two), strict=True)):
        progress("hidden states", done, len(one.parts))
        if a.part == "embed":
            known = match_stream(spec, a.tensors, b.tensors)
            for run, found in zip(runs, (a, b), strict=True):
                run.embed(found.tensors)
            votes = votes + _vote(spec, *(run.stream for run in runs))
        elif a.part != "head":
            both = (run.layer(w.tensors) for run, w in zip(runs, (a, b), strict=True))
            for _ in zip(*both, strict=True):
                votes = votes + _vote(spec, *(run.stream for run in runs))
    return known if stream_freedom(spec) == "none" else known | best_stream(spec, votes)


def _vote(spec: Transformer, one: Array, two: Array) -> Array:
    """Inner products (d, d) of hidden states (d, tokens); every token counts alike.

    Where only orders are free, what all tokens have in common is taken off: it lies in a few
    coordinates, which would decide for all.
    """
    ours, theirs = (_unit_columns(spec, x) for x in (one, two))
    if stream_freedom(spec) != "orthogonal":
        ours, theirs = (x - x.mean(axis=1, keepdims=True) for x in (ours, theirs))
    size = float(np.linalg.norm(ours) * np.linalg.norm(theirs))
    return np.asarray(ours @ theirs.T / max(size, 1e-300))


def _unit_columns(spec: Transformer, x: Array) -> Array:
    if spec.norm == "layer":
        x = x - x.mean(axis=0)
    size = np.linalg.norm(x, axis=0)
    return np.asarray(x / np.where(size > 0, size, 1))


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
            run.embed(w)
        if "stream" in self.basis:
            stream, by = of_stream(spec)["stream"], self.basis["stream"]
            self.runs[1].streams = [stream.on(by, x) for x in self.runs[1].streams]
        return self.basis

    def layer(self, spec: Transformer, part: str, one: Tensors, two: Tensors) -> None:
        """Bring heads and units of a layer of `two` near to those of `one`, in place."""
        depths = [list(run.layer(w, WATCHED)) for run, w in zip(self.runs, (one, two), strict=True)]
        seen = [_joined(every) for every in depths]
        ours, theirs = (_values(w, own) for w, own in zip((one, two), seen, strict=True))
        out = match_layer(spec, part, ours, theirs, self.near)
        out |= _units(spec, part, out, (one, two), seen)
        act(spec, part, out, two)
        self.layers[part] = out


def _joined(depths: list[Tensors]) -> Tensors:
    """The inputs of maps at all depths, side by side."""
    return {name: np.concatenate([x[name] for x in depths], axis=-1) for name in depths[0]}


def _values(w: Tensors, seen: Tensors) -> Tensors:
    """The tensors of a layer, with values on tokens in the place of maps that read the stream."""
    out = dict(w)
    latent = "A_K" in w
    x = _of_stream(seen, READ)
    for name in OF_LATENTS if latent else READERS:
        if name not in w:
            continue
        bias = out.pop(name.replace("W", "b"), 0.0) if name in READERS else 0.0
        out[name] = (w[name] @ x + bias) / x.shape[-1] ** 0.5
    return out


def _of_stream(seen: Tensors, name: str) -> Array:
    """What a map is given, of axes of length one but for the last two."""
    rows, tokens = seen[name].shape[-2:]
    return seen[name].reshape(rows, tokens)


# --- units --------------------------------------------------------------------------------------


def _units(
    spec: Transformer, part: str, found: Elements, w: tuple[Tensors, Tensors], seen: list[Tensors]
) -> Elements:
    """Units assigned to units, of every pair of experts that was found, or of the layer."""
    out: Elements = {}
    if "units" in found:
        held = [x[UNITS].reshape(-1, *x[UNITS].shape[-2:]) for x in seen]
        down = [x["W_down"].reshape(-1, *x["W_down"].shape[-2:]) for x in w]
        if "experts" in found:
            order = found["experts"][0].astype(int)
            held[1], down[1] = held[1][order], down[1][order]
        every = [_match(spec, *each) for each in zip(*held, *down, strict=True)]
        out |= unit_elements(spec, part, "units", every)
    if "shared" in found:
        ours, theirs = (_of_stream(x, SHARED) for x in seen)
        pair = _match(spec, ours, theirs, w[0]["S_down"], w[1]["S_down"])
        out |= unit_elements(spec, part, "shared", [pair])
    return out


def _match(
    spec: Transformer, one: Array, two: Array, down1: Array, down2: Array
) -> tuple[Array, Array]:
    """Order and signs of units (units, tokens) by correlation; silent ones by what they write."""
    a, b = (_unit_rows(x - x.mean(axis=1, keepdims=True)) for x in (one, two))
    alike = a @ b.T
    written = _unit_rows(down1.T) @ _unit_rows(down2.T).T
    silent: Array = np.logical_or.outer(~a.any(axis=1), ~b.any(axis=1))
    if not signed(spec):
        order = assignment(np.where(silent, written, alike))
        return order, np.ones(len(order))
    order = assignment(np.where(silent, np.abs(written), alike * written))
    places = np.arange(len(order)), order
    sign = np.where(silent[places], written[places], alike[places])
    return order, np.where(sign < 0, -1.0, 1.0)


def _unit_rows(rows: Array) -> Array:
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(size > 0, size, 1), np.float32)
