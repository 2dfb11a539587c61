"""OLMo 2: a llama with norms after attention and MLP, and of all queries and keys together."""

from __future__ import annotations

from typing import Any

from segre.models import llama
from segre.models.config import Config
from segre.models.family import Family, Names, Values, decoder_labels, norm
from segre.models.windows import listed
from segre.transformer.spec import Transformer


def _read(config: Config) -> Values:
    out = llama.decoder(config)
    listed(config, out["layers"])  # the library passes the list over
    return {**out, **llama.attention_biases(config)}


def _write(spec: Transformer) -> Values:
    return {**llama.write_decoder(spec), "attention_bias": spec.output_bias}


def _tensors(_spec: Transformer, part: str, _config: Config) -> Names:
    if part in ("embed", "head"):
        return llama.ends(part)
    at = f"model.layers.{int(part) - 1}"
    return {
        **llama.attention(f"{at}.self_attn"),
        **norm(f"{at}.post_attention_layernorm", "post1"),
        **llama.gated(f"{at}.mlp"),
        **norm(f"{at}.post_feedforward_layernorm", "post2"),
    }


def _preset(*sizes: int, **rest: Any) -> Values:
    given: Values = {"rope_theta": 500000.0, **rest}
    return llama.preset("olmo2", "Olmo2ForCausalLM", *sizes, **given)


FAMILY = Family(
    model_type="olmo2",
    base_class="Olmo2Model",
    head_classes=("Olmo2ForCausalLM",),
    label_classes=decoder_labels("Olmo2")[:1],
    defaults={
        **llama.DEFAULTS,
        "vocab_size": 50304,
        "intermediate_size": 11008,
        "num_key_value_heads": None,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "attention_bias": False,
    },
    read=_read,
    write=_write,
    prefix="model.",
    tensors=_tensors,
    choices={**llama.CHOICES, "place": "after", "qknorm": "all"},
    presets={
        "olmo-2-1b": _preset(16, 2048, 8192, 16, 16, 100352, 4096),
        "olmo-2-7b": _preset(32, 4096, 11008, 32, 32, 100352, 4096),
        "olmo-2-13b": _preset(40, 5120, 13824, 40, 40, 100352, 4096),
    },
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
