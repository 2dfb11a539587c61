"""Qwen3: a llama with norms of queries and keys, biases or none, and the windows of Qwen2."""

from __future__ import annotations

from typing import Any

from segre.models import llama, qwen2
from segre.models.config import Config
from segre.models.family import Family, Values, decoder_labels
from segre.transformer.spec import Transformer


def _read(config: Config) -> Values:
    return qwen2.read(config) | llama.attention_biases(config)


def _write(spec: Transformer) -> Values:
    return {**qwen2.write(spec), **llama.write_biases(spec)}


def _preset(*sizes: int, **rest: Any) -> Values:
    rest = {"head_dim": 128, "rope_theta": 1000000, **rest}
    return llama.preset("qwen3", "Qwen3ForCausalLM", *sizes, **rest)


FAMILY = Family(
    model_type="qwen3",
    base_class="Qwen3Model",
    head_classes=("Qwen3ForCausalLM",),
    label_classes=decoder_labels("Qwen3"),
    defaults={**qwen2.DEFAULTS, "head_dim": 128, "attention_bias": False},
    read=_read,
    write=_write,
    prefix="model.",
    tensors=llama.tensors,
    choices={**llama.CHOICES, "qknorm": True},
    presets={
        "qwen3-0.6b": _preset(28, 1024, 3072, 16, 8, 151936, 40960, tie_word_embeddings=True),
        "qwen3-8b": _preset(36, 4096, 12288, 32, 8, 151936, 40960),
    },
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
