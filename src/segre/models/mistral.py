"""Mistral: a llama with one sliding window in all layers, or none."""

from __future__ import annotations

from typing import Any

from segre.models import llama
from segre.models.config import Config
from segre.models.family import Family, Values, decoder_labels
from segre.models.windows import listed, window
from segre.transformer.spec import Transformer


def read(config: Config) -> Values:
    """The keys of a spec that a config gives."""
    out = llama.decoder(config)
    listed(config, out["layers"])  # the library passes the list over
    return {**out, "window": [window(config)]}


def write(spec: Transformer) -> Values:
    """The keys of a config that a spec gives."""
    return {**llama.write_decoder(spec), "sliding_window": max(spec.window, default=0) or None}


def _preset(*sizes: int, **rest: Any) -> Values:
    rest = {"rms_norm_eps": 1e-5, **rest}
    return llama.preset("mistral", "MistralForCausalLM", *sizes, **rest)


FAMILY = Family(
    model_type="mistral",
    base_class="MistralModel",
    head_classes=("MistralForCausalLM",),
    label_classes=decoder_labels("Mistral"),
    defaults={
        **llama.DEFAULTS,
        "vocab_size": 32000,
        "intermediate_size": 14336,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
    read=read,
    write=write,
    prefix="model.",
    tensors=llama.tensors,
    choices=llama.CHOICES,
    presets={
        "mistral-7b-v0.1": _preset(32, 4096, 14336, 32, 8, 32000, 32768, sliding_window=4096),
        "mistral-7b-v0.3": _preset(
            *(32, 4096, 14336, 32, 8, 32768, 32768), rope_theta=1000000.0, sliding_window=None
        ),
    },
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
