"""Mistral: a llama with one sliding window in all layers, or none."""

from __future__ import annotations

from segre.models import llama
from segre.models.config import Config
from segre.models.family import Values
from segre.models.windows import widest, window
from segre.transformer.spec import Transformer

DEFAULTS: Values = {
    "vocab_size": 32000,
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
}


def read(config: Config) -> Values:
    """The keys of a spec that a config gives."""
    return {**llama.windowless(config), "window": [window(config)]}


def write(spec: Transformer) -> Values:
    """The keys of a config that a spec gives."""
    return {**llama.write_decoder(spec), **widest(spec)}


_SIZES = (32, 4096, 14336, 32, 8)
FAMILY = llama.family(
    "mistral",
    "Mistral",
    defaults=DEFAULTS,
    read=read,
    write=write,
    models={
        "mistral-7b-v0.1": llama.sizes(*_SIZES, 32000, 32768, rms_norm_eps=1e-5),
        "mistral-7b-v0.3": llama.sizes(
            *(*_SIZES, 32768, 32768), rms_norm_eps=1e-5, rope_theta=1e6, sliding_window=None
        ),
    },
)
