"""Small models of every family that can be operated on; gains and biases are random too."""

from functools import cache
from typing import Any

import torch

from segre.collapse.models import Loaded, load

_SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "vocab_size": 61,
    "max_position_embeddings": 32,
}
_TWO: dict[str, Any] = {**_SIZES, "num_key_value_heads": 2, "head_dim": 8}
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", **_SIZES},
    "albert": {"model_type": "albert", **_SIZES, "embedding_size": 10},
    "xlnet": {
        "model_type": "xlnet",
        "d_model": 24,
        "n_layer": 3,
        "n_head": 4,
        "d_head": 6,
        "d_inner": 40,
        "vocab_size": 61,
    },
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 24,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 32,
        "vocab_size": 61,
    },
    "llama": {"model_type": "llama", **_TWO, "attention_bias": True, "mlp_bias": True},
    "mistral": {"model_type": "mistral", **_TWO, "sliding_window": 5},
    "qwen2": {"model_type": "qwen2", **_SIZES, "num_key_value_heads": 2},
    "qwen3": {"model_type": "qwen3", **_TWO},
}
FAMILIES = tuple(CONFIGS)
POST = ("bert", "albert", "xlnet")
CAUSAL = tuple(family for family in FAMILIES if family not in POST)


@cache
def small(family: str) -> Loaded:
    """One model of a family; whoever changes it puts it back."""
    loaded = load(CONFIGS[family], seed=FAMILIES.index(family))
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, weight in loaded.model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            weight += (0.3 if weight.ndim == 1 or "bias" in name else 0.1) * noise
    return loaded


def tokens(count: int = 3, length: int = 9, seed: int = 0) -> torch.Tensor:
    """Sequences of random tokens."""
    return torch.randint(61, (count, length), generator=torch.Generator().manual_seed(seed))
