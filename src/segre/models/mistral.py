"""Mistral: a llama with one sliding window in all layers, or none; Mixtral: also with experts."""

from __future__ import annotations

from functools import partial

from segre.models import llama
from segre.models.config import Config
from segre.models.family import Values
from segre.models.stored import Stored, experts, stacked_experts
from segre.models.windows import window

_MISTRAL: Values = llama.sizes(32, 4096, 14336, 32, 8, 32000, 131072)


def _read(config: Config) -> Values:
    return {**llama.windowless(config), "window": [window(config)]}


def _read_routed(config: Config) -> Values:
    return llama.all_routed(config, _read(config))


_SIZES = (32, 4096, 14336, 32, 8)
MISTRAL = llama.family(
    "mistral",
    "Mistral",
    defaults={**_MISTRAL, "sliding_window": 4096},
    read=_read,
    models={
        "mistral-7b-v0.1": llama.sizes(*_SIZES, 32000, 32768, rms_norm_eps=1e-5),
        "mistral-7b-v0.3": llama.sizes(
            *(*_SIZES, 32768, 32768), rms_norm_eps=1e-5, rope_theta=1e6, sliding_window=None
        ),
    },
)

# What MiniMax has, too.
ROUTED: Values = {
    **_MISTRAL,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000000,
    "sliding_window": None,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}


def routed(times: float = 1.0) -> dict[str, Stored]:
    """The router and the experts, as in files and as the library holds them."""
    return {
        "block_sparse_moe.gate.weight": Stored(("W_R",)),
        **experts("block_sparse_moe.experts", "w1", "w3", "w2", times),
        "mlp.gate.weight": Stored(("W_R",), instead=True),
        **stacked_experts("mlp.experts", times),
    }


MIXTRAL = llama.family(
    "mixtral",
    "Mixtral",
    defaults=ROUTED,
    own={"num_experts": "num_local_experts"},
    also=("num_experts",),
    read=_read_routed,
    tensors=llama.layout(llama.normed(llama.attention(), routed())),
    rest=partial(llama.routed_rest, experts=8, active=2),
    models={
        "mixtral-8x7b": llama.sizes(32, 4096, 14336, 32, 8, 32000, 32768),
        "mixtral-8x22b": llama.sizes(56, 6144, 16384, 48, 8, 32000, 65536),
    },
)
