"""Qwen2: a llama with biases of queries, keys and values, and windows in chosen layers."""

from __future__ import annotations

from segre.models import llama
from segre.models.config import Config
from segre.models.family import Values
from segre.models.windows import chosen, window, written
from segre.transformer.spec import Transformer

DEFAULTS: Values = {
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
    listed = config.get("layer_types")[1] is not None
    first = 0 if listed else config.count("max_window_layers", smallest=0)
    return {**out, "window": chosen(config, layers, size, lambda i: size > 0 and i >= first)}


def write(spec: Transformer) -> Values:
    """The keys of a config that a spec gives."""
    return {**llama.write_decoder(spec), **written(spec), "use_sliding_window": bool(spec.window)}


_QWEN_2: Values = {"rope_theta": 1000000.0}
FAMILY = llama.family(
    "qwen2",
    "Qwen2",
    defaults=DEFAULTS,
    read=read,
    write=write,
    choices={**llama.CHOICES, "bias": "qkv"},
    models={
        "qwen2-0.5b": llama.sizes(
            *(24, 896, 4864, 14, 2, 151936, 131072), **_QWEN_2, tie_word_embeddings=True
        ),
        "qwen2-7b": llama.sizes(28, 3584, 18944, 28, 4, 152064, 131072, **_QWEN_2),
    },
)
