"""Qwen3: a llama with norms of queries and keys, biases or none, and the windows of Qwen2."""

from __future__ import annotations

from segre.models import llama, qwen2
from segre.models.family import Values
from segre.transformer.spec import Transformer


def _write(spec: Transformer) -> Values:
    return {**qwen2.write(spec), **llama.write_biases(spec)}


_QWEN_3: Values = {"head_dim": 128, "rope_theta": 1000000}
FAMILY = llama.family(
    "qwen3",
    "Qwen3",
    defaults={**qwen2.DEFAULTS, "head_dim": 128, "attention_bias": False},
    read=qwen2.read,
    write=_write,
    choices={**llama.CHOICES, "qknorm": True},
    models={
        "qwen3-0.6b": llama.sizes(
            *(28, 1024, 3072, 16, 8, 151936, 40960), **_QWEN_3, tie_word_embeddings=True
        ),
        "qwen3-8b": llama.sizes(36, 4096, 12288, 32, 8, 151936, 40960, **_QWEN_3),
    },
)
