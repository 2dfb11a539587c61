"""Gradients by the streams and patterns of a pass, one sub-layer at a time.

The tape of one sub-layer is rebuilt from the stream that it read, so that no more than its weights
are in memory. Single precision by default.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segre.fields import Real
from segre.fields.interface import Array
from segre.fields.reverse import Reverse, Traced
from segre.fields.threads import threads_for
from segre.inspect.recorded import Recorded
from segre.transformer.forward import ATTENTION, MLP, at_length, sublayer_weights
from segre.transformer.stages import head, sublayer


@dataclass(frozen=True)
class Gradients:
    """The gradient of one number by every stream (n, d), and by every pattern (H, n, n)."""

    streams: tuple[Array, ...]
    patterns: tuple[Array, ...]


def gradients(
    recorded: Recorded, seed: Array | None = None, dtype: npt.DTypeLike = np.float32
) -> Gradients:
    """Gradients of the sum of seed times outputs; of the loss, or a random sum, without a seed."""
    weights = recorded.subject.weights
    spec = at_length(recorded.spec, recorded.tokens)
    target = default_seed(recorded) if seed is None else seed
    streams: list[Array] = []
    patterns: list[Array] = []
    with threads_for(spec.d), np.errstate(over="ignore", invalid="ignore"):
        gradient = _through_head(recorded, target, dtype)
        streams.append(gradient)
        for layer in range(spec.layers, 0, -1):
            field = Reverse(Real(dtype))
            first = x = field.variable(_columns(recorded.streams[layer - 1], dtype))
            for kind in (ATTENTION, MLP) if spec.mlp != "none" else (ATTENTION,):
                w = sublayer_weights(weights, layer, kind, dtype)
                reads = first if spec.parallel and kind == MLP else None
                traced = {name: Traced(value) for name, value in w.items()}
                x = sublayer(field, traced, x, spec=spec, layer=layer, number=kind, reads=reads)
            field.backward(x, _columns(gradient, dtype))
            assert first.gradient is not None
            gradient = first.gradient[0, 0, 0].T
            streams.append(gradient)
            if field.patterns:
                P = field.patterns[0]
                found = np.zeros_like(P.value) if P.gradient is None else P.gradient
                patterns.append(found.reshape(-1, *found.shape[-2:]).swapaxes(-1, -2))
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
    spec = at_length(recorded.spec, recorded.tokens)
    if not (spec.final or not spec.shows_stream or spec.pooler):
        return np.asarray(seed.T)
    field = Reverse(Real(dtype))
    w = recorded.subject.weights.part("head", None, dtype)
    if spec.tied:
        w |= recorded.subject.weights.part("embed", ["tokens"], dtype)
    x = field.variable(_columns(recorded.streams[-1], dtype))
    out = head(field, {name: Traced(value) for name, value in w.items()}, x, spec=spec)
    field.backward(out, seed.astype(dtype).reshape(out.value.shape))
    assert x.gradient is not None
    return np.asarray(x.gradient[0, 0, 0].T)


def _columns(X: Array, dtype: npt.DTypeLike) -> Array:
    return np.ascontiguousarray(X.T.astype(dtype))[None, None, None]
