"""SmolLM3: a llama in which some layers, by default every fourth, have no rotary positions."""

from __future__ import annotations

from segre.errors import SpecError
from segre.models import llama
from segre.models.config import Config
from segre.models.family import Values
from segre.models.windows import chosen, window
from segre.transformer.spec import Transformer
from segre.values import quote


def _read(config: Config) -> Values:
    out = llama.decoder(config)
    rotary = _rotary(config, out["layers"])
    size = window(config)
    out["window"] = chosen(config, out["layers"], size, lambda i: size > 0 and not rotary[i])
    if not any(rotary):
        return {**out, "pos": "none", "base": Transformer.base, "rescale": ""}
    return {**out, "base": [out["base"] if one else 0 for one in rotary]}


def _rotary(config: Config, layers: int) -> list[bool]:
    """Which layers have rotary positions."""
    key, value = config.get("no_rope_layers")
    if value is None:
        step = config.count("no_rope_layer_interval")
        return [(i + 1) % step != 0 for i in range(layers)]
    if not isinstance(value, list) or len(value) < layers or not {*value} <= {0, 1}:
        raise SpecError(
            f"{key}: {quote(str(value))}; allowed: a list of 1 (rotary) and 0, one for each layer"
        )
    return [bool(one) for one in value[:layers]]


FAMILY = llama.family(
    "smollm3",
    "SmolLM3",
    defaults={
        **llama.sizes(36, 2048, 11008, 16, 4, 128256, 32768),
        "tie_word_embeddings": True,
        "rope_theta": 2_000_000,
        "use_sliding_window": False,
        "sliding_window": None,
        "no_rope_layers": None,
        "no_rope_layer_interval": 4,
        "layer_types": None,
        "attention_bias": False,
        "mlp_bias": False,
    },
    read=_read,
    with_words={"tied": True},
    models={"smollm3-3b": {"max_position_embeddings": 65536, "rope_theta": 5000000.0}},
)
