"""One forward pass, and what every measure needs of it: streams, patterns, heads, units.

Weights of one sub-layer are in memory at a time. What heads write is kept as norms and inner
products, what units hold as their largest values: a pass of a large model stays small. Gradients
by streams and patterns are computed one sub-layer at a time, too: its tape is rebuilt from the
stream that it read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from segre.checkpoint.model import Model
from segre.fields import Real
from segre.fields.interface import Array
from segre.fields.reverse import Reverse, Traced
from segre.fields.threads import threads_for
from segre.geometry.progress import Progress, quiet
from segre.inspect.interventions import NOTHING, Intervention
from segre.transformer.forward import (
    Place,
    Tensors,
    Tokens,
    ending,
    finished,
    outputs_by_part,
    sublayer_weights,
    through,
)
from segre.transformer.spec import Transformer


@dataclass
class Layer:
    """What a layer did: heads in the order of the file, tokens from 0."""

    patterns: Array | None = None  # (heads, queries, keys)
    written: Array = field(default_factory=lambda: np.zeros((0, 0)))  # norms (heads, tokens)
    products: Array = field(default_factory=lambda: np.zeros((0, 0)))  # inner, of what heads write
    units: Array | None = None  # (units,): largest magnitudes over the tokens
    queries: Array | None = None  # (heads, n): eigenvalues of W_Q' W_K, gains folded in

    def see(self, place: Place, name: str, x: Array) -> None:
        """Keep what measures need of the value at a point."""
        assert place.spec is not None
        if name == "attn.hook_pattern" and place.spec.at(place.layer).mechanism.softmax:
            self.patterns = x.reshape(-1, *x.shape[-2:]).swapaxes(-1, -2)
        elif name == "attn.hook_z":
            self.written, self.products = _written(place.w["W_O"], x[0])
            self.queries = _query_spectrum(place.spec.at(place.layer), place.w)
        elif name == "mlp.hook_post":
            self.units = np.abs(x[0]).max(axis=-1).reshape(-1)


@dataclass(frozen=True)
class Recorded:
    """A forward pass of one sequence, written down."""

    model: Model
    ids: Array  # (n,)
    words: tuple[str, ...]  # texts of the tokens, if a tokenizer is there
    streams: tuple[Array, ...]  # (n, d), before the first layer and after each
    layers: tuple[Layer, ...]
    last: Array | None  # (n, d): after the final norm, if there is one
    outputs: Array  # (rows, columns)

    @property
    def spec(self) -> Transformer:
        """The architecture."""
        return self.model.spec

    @property
    def tokens(self) -> int:
        """How many."""
        return len(self.ids)

    @cached_property
    def patterns(self) -> Array | None:
        """All patterns: (layers, heads, queries, keys)."""
        return _stacked([layer.patterns for layer in self.layers])

    @cached_property
    def attention(self) -> Array | None:
        """Mean attention to every key of the queries from a quarter on: (layers, heads, keys)."""
        P = self.patterns
        return None if P is None else np.asarray(P[:, :, self.tokens // 4 :].mean(axis=2))

    @cached_property
    def queries(self) -> Array | None:
        """Eigenvalues of W_Q' W_K of all heads: (layers, heads, n)."""
        return _stacked([layer.queries for layer in self.layers])

    @cached_property
    def pattern_values(self) -> Array | None:
        """Singular values of all patterns, the largest first: (layers, heads, tokens)."""
        P = self.patterns
        return None if P is None else np.linalg.svd(P, compute_uv=False)

    @cached_property
    def stream_values(self) -> tuple[Array, ...]:
        """Singular values of every stream, the largest first."""
        return tuple(np.linalg.svd(X, compute_uv=False) for X in self.streams)

    @property
    def predicts(self) -> bool:
        """Whether the model predicts next tokens, so that it has a loss on a text."""
        spec = self.spec
        return spec.causal and spec.output == "logits" and not (spec.labels or spec.pooler)

    @cached_property
    def loss(self) -> float | None:
        """Nats for each next token; None if the model predicts none."""
        if not self.predicts or self.tokens < 2:
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
    model: Model,
    ids: Sequence[int] | Array,
    words: Sequence[str] = (),
    intervention: Intervention = NOTHING,
    *,
    progress: Progress = quiet,
) -> Recorded:
    """Run a model on tokens (n,) in double precision, and write down what measures need."""
    tokens = Tokens(np.asarray(ids)[None])
    intervention.require(model.spec, tokens.length)
    spec = model.spec
    layers = [Layer() for _ in range(spec.layers)]
    streams: list[Array] = []
    last: list[Array] = []

    def hook(place: Place, name: str, x: Array) -> Array:
        x = intervention.at(place, name, x)
        depth = place.depth(name)
        if depth is not None:
            streams.append(np.ascontiguousarray(x[0, 0, 0].T))
            progress("layers", depth, spec.layers)
        elif name == "ln_final.hook_normalized":
            last.append(x[0, 0, 0].T)
        elif 0 < place.layer <= spec.layers:
            layers[place.layer - 1].see(place, name, x)
        return x

    with threads_for(spec.d), np.errstate(over="ignore", invalid="ignore"):
        outputs = finished(outputs_by_part(model, tokens, Real(), hook=hook))[0]
    found = (model, np.asarray(ids), tuple(words), tuple(streams), tuple(layers))
    return Recorded(*found, last[0] if last else None, outputs)


def _stacked(layers: Sequence[Array | None]) -> Array | None:
    """What all layers have, as one array; None if a layer lacks it."""
    every = [one for one in layers if one is not None]
    return np.stack(every) if len(every) == len(layers) else None


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


@dataclass(frozen=True)
class Gradients:
    """The gradient of one number by every stream (n, d), and by every pattern (H, n, n)."""

    streams: tuple[Array, ...]
    patterns: tuple[Array, ...]


def gradients(
    recorded: Recorded, seed: Array | None = None, dtype: npt.DTypeLike = np.float32
) -> Gradients:
    """Gradients of the sum of seed times outputs; of the loss, or a random sum, without a seed."""
    weights, spec, tokens = recorded.model, recorded.spec, Tokens(recorded.ids[None])

    def read(layer: int, number: int) -> Mapping[str, Traced]:
        return _constants(sublayer_weights(weights, layer, number, dtype))

    target = default_seed(recorded) if seed is None else seed
    streams: list[Array] = []
    patterns: list[Array] = []
    with threads_for(spec.d), np.errstate(over="ignore", invalid="ignore"):
        gradient = _through_head(recorded, target, dtype)
        streams.append(gradient)
        for layer in range(spec.layers, 0, -1):
            found: list[Traced] = []

            def keep(place: Place, name: str, x: Traced, found: list[Traced] = found) -> Traced:
                if name == "attn.hook_pattern" and spec.at(place.layer).mechanism.softmax:
                    found.append(x)
                return x

            field = Reverse(Real(dtype))
            first = field.variable(_columns(recorded.streams[layer - 1], dtype))
            after = [[first]]
            finished(through(spec, [layer], after, [tokens], field, read, hook=keep))
            field.backward(after[0][0], _columns(gradient, dtype))
            assert first.gradient is not None
            gradient = first.gradient[0, 0, 0].T
            streams.append(gradient)
            for P in found:
                own = np.zeros_like(P.value) if P.gradient is None else P.gradient
                patterns.append(own.reshape(-1, *own.shape[-2:]).swapaxes(-1, -2))
    return Gradients(tuple(streams[::-1]), tuple(patterns[::-1]))


def default_seed(recorded: Recorded) -> Array:
    """The derivative of the loss by the logits, or a random direction of the outputs."""
    outputs = recorded.outputs
    if recorded.loss is None:
        drawn = np.random.default_rng(0).standard_normal(outputs.shape)
        return np.asarray(drawn / np.linalg.norm(drawn))
    count = recorded.tokens - 1
    logits = outputs[:, :-1]
    shares = np.exp(logits - logits.max(axis=0))
    shares /= shares.sum(axis=0)
    shares[recorded.ids[1:], np.arange(count)] -= 1
    return np.concatenate([shares / count, np.zeros_like(outputs[:, -1:])], axis=1)


def _through_head(recorded: Recorded, seed: Array, dtype: npt.DTypeLike) -> Array:
    field = Reverse(Real(dtype))
    x = field.variable(_columns(recorded.streams[-1], dtype))
    out = ending(recorded.model, recorded.tokens, field, x, dtype=dtype, lifted=_constants)
    if out is x:  # the model ends with its stream
        return np.asarray(seed.T)
    field.backward(out, seed.astype(dtype).reshape(out.value.shape))
    assert x.gradient is not None
    return np.asarray(x.gradient[0, 0, 0].T)


def _constants(w: Tensors) -> Mapping[str, Traced]:
    """Weights, which are not differentiated."""
    return {name: Traced(value) for name, value in w.items()}


def _columns(X: Array, dtype: npt.DTypeLike) -> Array:
    return np.ascontiguousarray(X.T.astype(dtype))[None, None, None]
