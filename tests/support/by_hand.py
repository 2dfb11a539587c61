"""Layers of the transformers library written out in NumPy, from the definitions.

Nothing of segre is used: only the weights of a model. Tokens are rows, in float64.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def array(weight: Any) -> Array:
    return np.asarray(weight.detach().double().numpy())


def linear(module: Any, X: Array) -> Array:
    out = X @ array(module.weight).T
    return out if module.bias is None else out + array(module.bias)


def conv(module: Any, X: Array) -> Array:
    return np.asarray(X @ array(module.weight) + array(module.bias))


def layer_norm(module: Any, X: Array) -> Array:
    centred = X - X.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + module.eps)
    return np.asarray(centred / deviation * array(module.weight) + array(module.bias))


def rms_norm(module: Any, X: Array) -> Array:
    root = np.sqrt((X**2).mean(-1, keepdims=True) + module.variance_epsilon)
    return np.asarray(X / root * array(module.weight))


def attend(Q: Array, K: Array, V: Array, hidden: Array | None = None) -> Array:
    """Heads in the last axis but one: (n, H, k). `hidden` marks the keys a query does not see."""
    n, heads, width = Q.shape
    out = np.empty((n, heads, V.shape[2]))
    for h in range(heads):
        g = h * K.shape[1] // heads
        scores = Q[:, h] @ K[:, g].T / np.sqrt(width)
        if hidden is not None:
            scores[hidden] = -np.inf
        P = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, h] = P / P.sum(-1, keepdims=True) @ V[:, g]
    return out.reshape(n, -1)


def heads_of(X: Array, heads: int) -> Array:
    return X.reshape(len(X), heads, -1)


def later(n: int, window: int | None = None) -> Array:
    """Keys after the query, or too far before it."""
    gap = np.arange(n)[:, None] - np.arange(n)
    return np.asarray((gap < 0) | (gap >= (window or n)))


def bert(layer: Any, X: Array, model: Any) -> Array:
    own, H = layer.attention.self, model.config.num_attention_heads
    parts = (heads_of(linear(part, X), H) for part in (own.query, own.key, own.value))
    return linear(layer.attention.output.dense, attend(*parts))


def albert(layer: Any, X: Array, model: Any) -> Array:
    own, H = layer.attention, model.config.num_attention_heads
    parts = (heads_of(linear(part, X), H) for part in (own.query, own.key, own.value))
    return linear(own.dense, attend(*parts))


def gpt2(layer: Any, X: Array, model: Any) -> Array:
    parts = np.split(conv(layer.attn.c_attn, X), 3, axis=1)
    Q, K, V = (heads_of(part, model.config.n_head) for part in parts)
    return conv(layer.attn.c_proj, attend(Q, K, V, later(len(X))))


def decoder(layer: Any, X: Array, model: Any) -> Array:
    own, config = layer.self_attn, model.config
    Q = heads_of(linear(own.q_proj, X), config.num_attention_heads)
    K, V = (
        heads_of(linear(part, X), config.num_key_value_heads) for part in (own.k_proj, own.v_proj)
    )
    if hasattr(own, "q_norm"):
        Q, K = rms_norm(own.q_norm, Q), rms_norm(own.k_norm, K)
    window = config.sliding_window if config.model_type == "mistral" else None
    mixed = attend(turned(Q, config), turned(K, config), V, later(len(X), window))
    return linear(own.o_proj, mixed)


def turned(X: Array, config: Any) -> Array:
    """Rotary positions: pairs (j, j + k/2) of a head turn together."""
    half = X.shape[-1] // 2
    rates = config.rope_parameters["rope_theta"] ** (-np.arange(half) / half)
    angle = (np.arange(len(X))[:, None] * rates)[:, None]
    left, right = X[..., :half], X[..., half:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([left * cos - right * sin, right * cos + left * sin], -1)


ATTENTION: dict[str, Callable[[Any, Array, Any], Array]] = {
    "bert": bert,
    "albert": albert,
    "gpt2": gpt2,
    "llama": decoder,
    "mistral": decoder,
    "qwen2": decoder,
    "qwen3": decoder,
}


def norms(family: str, layer: Any) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """The norms of attention and of the MLP."""
    match family:
        case "bert":
            both = layer.attention.output.LayerNorm, layer.output.LayerNorm
        case "albert":
            both = layer.attention.LayerNorm, layer.full_layer_layer_norm
        case "gpt2":
            both = layer.ln_1, layer.ln_2
        case _:
            both = layer.input_layernorm, layer.post_attention_layernorm
    norm = layer_norm if hasattr(both[0], "eps") else rms_norm
    return (lambda X: norm(both[0], X)), (lambda X: norm(both[1], X))


def mlp(family: str, layer: Any, X: Array) -> Array:
    """The MLP, with the activation of the library."""
    import torch

    def act(function: Any, values: Array) -> Array:
        return np.asarray(function(torch.from_numpy(values)).numpy())

    match family:
        case "bert":
            inner = linear(layer.intermediate.dense, X)
            return linear(layer.output.dense, act(layer.intermediate.intermediate_act_fn, inner))
        case "albert":
            return linear(layer.ffn_output, act(layer.activation, linear(layer.ffn, X)))
        case "gpt2":
            return conv(layer.mlp.c_proj, act(layer.mlp.act, conv(layer.mlp.c_fc, X)))
    own = layer.mlp
    gates = act(own.act_fn, linear(own.gate_proj, X))
    return linear(own.down_proj, gates * linear(own.up_proj, X))
