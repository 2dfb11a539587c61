"""A tiny model directory, to try things on: two llama layers with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from segre.checkpoint.folder import new_directory
from segre.checkpoint.reading import CONFIG
from segre.files import save_tensors

_D, _FF, _WORDS, _HEADS, _KV, _LAYERS = 8, 12, 11, 2, 1, 2
_CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": _D,
    "intermediate_size": _FF,
    "max_position_embeddings": 16,
    "num_attention_heads": _HEADS,
    "num_hidden_layers": _LAYERS,
    "num_key_value_heads": _KV,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "vocab_size": _WORDS,
}
_LAYER = {
    "input_layernorm": (_D,),
    "self_attn.q_proj": (_D, _D),
    "self_attn.k_proj": (_D * _KV // _HEADS, _D),
    "self_attn.v_proj": (_D * _KV // _HEADS, _D),
    "self_attn.o_proj": (_D, _D),
    "post_attention_layernorm": (_D,),
    "mlp.gate_proj": (_FF, _D),
    "mlp.up_proj": (_FF, _D),
    "mlp.down_proj": (_D, _FF),
}


def example(directory: str | Path, seed: int = 0) -> Path:
    """Write a tiny model with random weights into a new directory, and return the directory.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.commands import info
    >>> with TemporaryDirectory() as folder:
    ...     info(example(f"{folder}/model")).parameters
    1176
    """
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens": (_WORDS, _D),
        **{
            f"model.layers.{layer}.{name}": shape
            for layer in range(_LAYERS)
            for name, shape in _LAYER.items()
        },
        "model.norm": (_D,),
        "lm_head": (_WORDS, _D),
    }
    rng = np.random.default_rng(seed)
    weights = {
        f"{name}.weight": rng.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    with new_directory(directory) as folder:
        (folder / CONFIG).write_text(json.dumps(_CONFIG, indent=2) + "\n")
        save_tensors(weights, folder / "model.safetensors", {"format": "pt"})
    return Path(directory)
