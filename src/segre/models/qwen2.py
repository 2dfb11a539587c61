"""Qwen2: a llama with biases of queries, keys and values, and windows in chosen layers."""

from __future__ import annotations

from typing import Any

from segre.models import llama
from segre.models.config import Config
from segre.models.family import Family, Values, decoder_labels
from segre.models.windows import chosen, window, written
from segre.transformer.spec import Transformer

DEFAULTS: Values = {
    **llama.DEFAULTS,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "layer_types": None,
}


def read(config: Config) -> Values:
    """The keys of a spec that a config gives."""
    out = llama.decoder(config)
    layers = out["layers"]
    size = window(config) if config.flag("use_sliding_window") else 0
    first = config.count("max_window_layers", smallest=0) if not _listed(config) else 0
    return {**out, "window": chosen(config, layers, size, lambda i: size > 0 and i >= first)}


def _listed(config: Config) -> bool:
    return config.get("layer_types")[1] is not None


def write(spec: Transformer) -> Values:
    """The keys of a config that a spec gives."""
    return {**llama.write_decoder(spec), **written(spec), "use_sliding_window": bool(spec.window)}


def _preset(*sizes: int, **rest: Any) -> Values:
    rest = {"rope_theta": 1000000.0, **rest}
    return llama.preset("qwen2", "Qwen2ForCausalLM", *sizes, **rest)


FAMILY = Family(
    model_type="qwen2",
    base_class="Qwen2Model",
    head_classes=("Qwen2ForCausalLM",),
    label_classes=decoder_labels("Qwen2"),
    defaults=DEFAULTS,
    read=read,
    write=write,
    prefix="model.",
    tensors=llama.tensors,
    choices={**llama.CHOICES, "bias": "qkv"},
    presets={
        "qwen2-0.5b": _preset(24, 896, 4864, 14, 2, 151936, 131072, tie_word_embeddings=True),
        "qwen2-7b": _preset(28, 3584, 18944, 28, 4, 152064, 131072),
    },
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
