"""Qwen2: a llama with biases of queries, keys and values, and windows in chosen layers.

Qwen3 has norms of queries and keys, and biases or none; Qwen3-MoE has routed experts, in all layers
or in some.
"""

from __future__ import annotations

from functools import partial

from segre.errors import SpecError
from segre.models import llama
from segre.models.config import Config
from segre.models.family import Values
from segre.models.stored import experts, stacked_experts
from segre.models.windows import chosen, window
from segre.values import quote


def _read(config: Config) -> Values:
    out = llama.decoder(config)
    size = window(config)
    listed = config.get("layer_types")[1] is not None
    first = 0 if listed else config.count("max_window_layers", smallest=0)
    windows = chosen(config, out["layers"], size, lambda i: size > 0 and i >= first)
    return {**out, "window": windows}


def _read_routed(config: Config) -> Values:
    out = llama.decoder(config)
    out["window"] = [window(config)]
    count = config.count("num_local_experts", smallest=0)
    dense = _dense(config, out["layers"])
    if not count or all(dense):
        return {**out, "experts": 0}
    return {
        **out,
        "ff": out["ff"] if any(dense) else 0,
        "experts": count,
        "active": config.count("num_experts_per_tok", largest=count),
        "eff": config.count("moe_intermediate_size"),
        "dense": dense,
        "router": "softmax" if config.flag("norm_topk_prob") else "softmax-raw",
    }


def _dense(config: Config, layers: int) -> list[int]:
    """Which layers have no experts: 1 or 0."""
    step = config.count("decoder_sparse_step")
    key, plain = config.get("mlp_only_layers")
    if plain is not None and not (isinstance(plain, list) and all(type(i) is int for i in plain)):
        raise SpecError(f"{key}: {quote(str(plain))}; allowed: a list of layers, from 0")
    return [int((i + 1) % step > 0 or i in (plain or ())) for i in range(layers)]


_WINDOWS: Values = {"use_sliding_window": False, "sliding_window": 4096}
_DEFAULTS: Values = {**_WINDOWS, "max_window_layers": 28, "layer_types": None}
_QWEN_2: Values = {"rope_theta": 1000000.0}
QWEN_2 = llama.family(
    "qwen2",
    "Qwen2",
    defaults=_DEFAULTS,
    read=_read,
    choices={**llama.CHOICES, "bias": "qkv"},
    models={
        "qwen2-0.5b": llama.sizes(
            *(24, 896, 4864, 14, 2, 151936, 131072), **_QWEN_2, tie_word_embeddings=True
        ),
        "qwen2-7b": llama.sizes(28, 3584, 18944, 28, 4, 152064, 131072, **_QWEN_2),
    },
)

_QWEN_3: Values = {"head_dim": 128, "rope_theta": 1000000}
QWEN_3 = llama.family(
    "qwen3",
    "Qwen3",
    defaults={**_DEFAULTS, "head_dim": 128, "attention_bias": False},
    read=_read,
    choices={**llama.CHOICES, "qknorm": True},
    models={
        "qwen3-0.6b": llama.sizes(
            *(28, 1024, 3072, 16, 8, 151936, 40960), **_QWEN_3, tie_word_embeddings=True
        ),
        "qwen3-8b": llama.sizes(36, 4096, 12288, 32, 8, 151936, 40960, **_QWEN_3),
    },
)

_ROUTED: Values = {**_QWEN_2, "head_dim": 128, "norm_topk_prob": True}
QWEN_3_MOE = llama.family(
    "qwen3_moe",
    "Qwen3Moe",
    defaults={
        **llama.sizes(24, 2048, 6144, 32, 4, 151936, 32768),
        **_WINDOWS,
        "attention_bias": False,
        "decoder_sparse_step": 1,
        "moe_intermediate_size": 768,
        "num_experts_per_tok": 8,
        "num_experts": 128,
        "norm_topk_prob": False,
        "mlp_only_layers": None,
    },
    own={"num_local_experts": "num_experts"},
    also=("num_local_experts", "max_window_layers"),
    read=_read_routed,
    tensors=llama.layout(
        llama.normed(
            llama.attention(),
            {
                **llama.GATED,
                **llama.ROUTER,
                **experts("mlp.experts", "gate_proj", "up_proj", "down_proj"),
                **stacked_experts("mlp.experts"),
            },
        )
    ),
    choices={**llama.CHOICES, "qknorm": True},
    rest=partial(llama.routed_rest, experts=128, active=8),
    models={
        "qwen3-30b-a3b": llama.sizes(48, 2048, 6144, 32, 4, 151936, 40960, **_ROUTED),
        "qwen3-235b-a22b": llama.sizes(
            *(94, 4096, 12288, 64, 4, 151936, 40960), **_ROUTED, moe_intermediate_size=1536
        ),
    },
)
