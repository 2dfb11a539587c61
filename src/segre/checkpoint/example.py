"""A tiny model directory, to try things on: two llama layers with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from segre.checkpoint.folder import new_directory
from segre.checkpoint.layout import layout
from segre.checkpoint.reading import CONFIG, WEIGHTS
from segre.files import save_tensors
from segre.models.registry import from_config

_CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 8,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "vocab_size": 11,
}


def example(directory: str | Path, seed: int = 0) -> Path:
    """Write a tiny model with random weights into a new directory, and return the directory.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.commands import info
    >>> with TemporaryDirectory() as folder:
    ...     info(example(f"{folder}/model")).parameters
    1176
    """
    rng = np.random.default_rng(seed)
    weights = {
        held.file: rng.standard_normal(held.stored_shape).astype(np.float32)
        for every in layout(from_config(_CONFIG, "example"), "llama", _CONFIG).values()
        for held in every
    }
    with new_directory(directory) as folder:
        (folder / CONFIG).write_text(json.dumps(_CONFIG, indent=2) + "\n")
        save_tensors(weights, folder / WEIGHTS, {"format": "pt"})
    return Path(directory)
