"""One forward pass, and what every measure needs of it: streams, patterns, heads, units.

Weights of one sub-layer are in memory at a time. What heads write is kept as norms and inner
products, what units hold as their largest values: a pass of a large model stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from segre.collapse.record import Recording
from segre.fields import Real
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.geometry.progress import Progress, quiet
from segre.inspect.interventions import NOTHING, Intervention
from segre.inspect.subject import Subject
from segre.transformer.forward import (
    ATTENTION,
    MLP,
    Tensors,
    Tokens,
    at_length,
    embed,
    sublayer_weights,
)
from segre.transformer.layers import normalise
from segre.transformer.spec import Transformer
from segre.transformer.stages import head, sublayer


class Watching(Recording):
    """A recording field that shows what certain matrices are multiplied by."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: dict[int, Callable[[Array], None]] = {}

    def watch(self, w: Tensors, name: str, see: Callable[[Array, Array], None]) -> None:
        """Show what a tensor is multiplied by, while it is there."""
        if name in w:
            matrix = w[name]
            self.watched[id(matrix)] = lambda right: see(matrix, right)

    def _seen(self, left: Array, right: Array) -> None:
        if (see := self.watched.get(id(left))) is not None:
            see(right)

    def matmul(self, x: Array, y: Array) -> Array:
        """Matrix product, seen if it is watched."""
        self._seen(x, y)
        return super().matmul(x, y)

    def joined(self, maps: Array, parts: Array, heads: tuple[int, int]) -> Array:
        """What heads write, seen if it is watched."""
        self._seen(maps, parts)
        return super().joined(maps, parts, heads)


@dataclass
class Layer:
    """What a layer did: heads in the order of the file, tokens from 0."""

    patterns: Array | None = None  # (heads, queries, keys)
    written: Array = field(default_factory=lambda: np.zeros((0, 0)))  # norms (heads, tokens)
    products: Array = field(default_factory=lambda: np.zeros((0, 0)))  # inner, of what heads write
    units: Array | None = None  # (units,): largest magnitudes over the tokens
    queries: Array | None = None  # (heads, n): eigenvalues of W_Q' W_K, gains folded in


@dataclass(frozen=True)
class Recorded:
    """A forward pass of one sequence, written down."""

    subject: Subject
    ids: Array  # (n,)
    words: tuple[str, ...]  # texts of the tokens, if a tokenizer is there
    streams: tuple[Array, ...]  # (n, d), before the first layer and after each
    layers: tuple[Layer, ...]
    last: Array | None  # (n, d): after the final norm, if there is one
    outputs: Array  # (rows, columns)

    @property
    def spec(self) -> Transformer:
        """The architecture."""
        return self.subject.spec

    @property
    def tokens(self) -> int:
        """How many."""
        return len(self.ids)

    @cached_property
    def patterns(self) -> Array | None:
        """All patterns: (layers, heads, queries, keys)."""
        every = [layer.patterns for layer in self.layers if layer.patterns is not None]
        return np.stack(every) if len(every) == len(self.layers) else None

    @cached_property
    def pattern_values(self) -> Array | None:
        """Singular values of all patterns, the largest first: (layers, heads, tokens)."""
        P = self.patterns
        return None if P is None else np.linalg.svd(P, compute_uv=False)

    @cached_property
    def stream_values(self) -> tuple[Array, ...]:
        """Singular values of every stream, the largest first."""
        return tuple(np.linalg.svd(X, compute_uv=False) for X in self.streams)

    @cached_property
    def loss(self) -> float | None:
        """Nats for each next token; None if the model predicts none."""
        if not self.subject.predicts or self.tokens < 2:
            return None
        logits = self.outputs[:, :-1]
        top = logits.max(axis=0)
        total = top + np.log(np.exp(logits - top).sum(axis=0))
        right = logits[self.ids[1:], np.arange(self.tokens - 1)]
        return float((total - right).mean())

    def word(self, token: int) -> str:
        """What a token says; nothing if that is not known."""
        return self.words[token] if token < len(self.words) else ""

    def first_not_finite(self) -> int | None:
        """The first depth at which a number is not finite."""
        for depth, stream in enumerate(self.streams):
            if not np.isfinite(stream).all():
                return depth
        return None


def recorded(
    subject: Subject,
    ids: Sequence[int] | Array,
    words: Sequence[str] = (),
    intervention: Intervention = NOTHING,
    *,
    progress: Progress = quiet,
) -> Recorded:
    """Run a model on tokens (n,) in double precision, and write down what measures need."""
    tokens = Tokens(np.asarray(ids)[None])
    weights = intervention.weights(subject.weights)
    intervention.require(subject.spec, tokens.length)
    spec = at_length(subject.spec, tokens.length)
    real = Watching()
    streams: list[Array] = []
    layers: list[Layer] = []

    def keep(depth: int, x: Array) -> Array:
        x = intervention.at(depth, x)
        streams.append(np.ascontiguousarray(x[0, 0, 0].T))
        return x

    with threads_for(spec.d), np.errstate(over="ignore", invalid="ignore"):
        x = keep(0, embed(weights, tokens, real))
        for number in range(1, spec.layers + 1):
            progress("layers", number - 1, spec.layers)
            own, begin = Layer(), x
            for kind in (ATTENTION, MLP) if spec.mlp != "none" else (ATTENTION,):
                w = sublayer_weights(weights, number, kind)
                _watch(real, own, w, spec, number, kind)
                reads = begin if spec.parallel and kind == MLP else None
                x = sublayer(real, w, x, spec=spec, layer=number, number=kind, reads=reads)
                real.watched.clear()
                if kind == ATTENTION and real.patterns:
                    P = real.patterns.pop()
                    own.patterns = P.reshape(-1, *P.shape[-2:]).swapaxes(-1, -2)
            layers.append(own)
            x = keep(number, x)
        last, outputs = _ending(weights.part, spec, x)
    return Recorded(
        subject, np.asarray(ids), tuple(words), tuple(streams), tuple(layers), last, outputs
    )


def _ending(
    part: Callable[..., Tensors], spec: Transformer, x: Array
) -> tuple[Array | None, Array]:
    """The stream after the final norm, and the outputs."""
    if not (spec.final or not spec.shows_stream or spec.pooler):
        return None, np.asarray(x[0, 0, 0])
    w = part("head")
    if spec.tied:
        w |= part("embed", ["tokens"])
    last = normalise(Real(), spec, w, "norm", x, spec.d)[0, 0, 0].T if spec.final else None
    return last, np.asarray(head(Real(), w, x, spec=spec)[0, 0, 0])


def _watch(
    real: Watching, own: Layer, w: Tensors, spec: Transformer, number: int, kind: int
) -> None:
    """Keep what heads write and units hold."""

    def heads(W: Array, mixed: Array) -> None:
        own.written, own.products = _written(W, mixed[0])

    def units(_: Array, hidden: Array) -> None:
        own.units = np.abs(hidden[0]).max(axis=-1).reshape(-1)

    if kind == ATTENTION:
        real.watch(w, "W_O", heads)
        own.queries = _query_spectrum(spec.at(number), w)
    else:
        real.watch(w, "W_down", units)


def _written(W: Array, mixed: Array) -> tuple[Array, Array]:
    """Norms of what heads write, by token, and inner products, summed over tokens.

    W is (kv, group, d, dv), mixed (kv, group, dv, n).
    """
    dv, n = mixed.shape[-2:]
    flat = mixed.reshape(-1, n)
    wide = np.moveaxis(W, -2, 0).reshape(W.shape[-2], -1)
    gram = wide.T @ wide
    H = len(flat) // dv
    blocks = (gram * (flat @ flat.T)).reshape(H, dv, H, dv).sum(axis=(1, 3))
    own = np.einsum("hvhw->hvw", gram.reshape(H, dv, H, dv))
    of = flat.reshape(H, dv, n)
    squares = np.einsum("hvt,hvw,hwt->ht", of, own, of, optimize=True)
    return np.sqrt(squares.clip(0)), blocks


def _query_spectrum(spec: Transformer, w: Mapping[str, Array]) -> Array | None:
    """Eigenvalues of W_Q' W_K of every head that can be nonzero: those of W_K W_Q'."""
    if not {"W_Q", "W_K"} <= set(w) or spec.latent:
        return None
    gain = w["norm1.gain"][:, 0] if "norm1.gain" in w else 1.0
    K = np.broadcast_to(w["W_K"] * gain, (spec.kv, spec.group, *w["W_K"].shape[-2:]))
    small = K @ (w["W_Q"] * gain).swapaxes(-1, -2)
    return np.linalg.eigvals(small.reshape(-1, *small.shape[-2:]))
