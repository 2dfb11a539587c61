"""Checkpoints of the shape of Llama-3.2-1B, or tiny ones, with random bfloat16 weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "rope_theta": 500000.0,
}
TINY = {**LLAMA, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96}
TINY |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 500}


def written(folder: Path, config: dict[str, Any]) -> Path:
    """A checkpoint of random bfloat16 weights."""
    d, ff, head = (config[key] for key in ("hidden_size", "intermediate_size", "head_dim"))
    kv, heads = config["num_key_value_heads"] * head, config["num_attention_heads"] * head
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], d)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        shapes |= {
            f"{at}.input_layernorm.weight": (d,),
            f"{at}.post_attention_layernorm.weight": (d,),
            f"{at}.self_attn.q_proj.weight": (heads, d),
            f"{at}.self_attn.k_proj.weight": (kv, d),
            f"{at}.self_attn.v_proj.weight": (kv, d),
            f"{at}.self_attn.o_proj.weight": (d, heads),
            f"{at}.mlp.gate_proj.weight": (ff, d),
            f"{at}.mlp.up_proj.weight": (ff, d),
            f"{at}.mlp.down_proj.weight": (d, ff),
        }
    shapes["model.norm.weight"] = (d,)
    header, start = {}, 0
    for name, shape in shapes.items():
        end = start + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(0)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in shapes.values():
            rows = 1 if len(shape) == 1 else shape[0]
            for first in range(0, rows, 4096):
                size = (min(4096, rows - first), int(np.prod(shape)) // rows)
                values = 0.02 * rng.standard_normal(size, dtype=np.float32)
                values += len(shape) == 1  # gains are near one
                file.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())
    return folder
