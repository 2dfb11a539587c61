"""Gradients by the streams and patterns of a pass, one sub-layer at a time.

The tape of one sub-layer is rebuilt from the stream that it read, so that no more than its weights
are in memory. Single precision by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segre.fields import Real
from segre.fields.interface import Array
from segre.fields.reverse import Reverse, Traced
from segre.fields.threads import threads_for
from segre.inspect.recorded import Recorded
from segre.transformer.forward import (
    Place,
    Tensors,
    Tokens,
    ending,
    finished,
    sublayer_weights,
    through,
)


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
