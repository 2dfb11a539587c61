"""Mixtral: a mistral with routed experts in all layers, and a softmax over the chosen experts."""

from __future__ import annotations

from functools import partial
from typing import Any

from segre.models import experts, llama, mistral
from segre.models.config import Config
from segre.models.family import Family, Names, Stored, Values, decoder_labels, norm
from segre.transformer.spec import Transformer


def _read(config: Config) -> Values:
    return experts.all_routed(config, mistral.read(config))


def _write(spec: Transformer) -> Values:
    return {**mistral.write(spec), **experts.written_routed(spec)}


def tensors(_spec: Transformer, part: str, _config: Config) -> Names:
    """Where the tensors of a part lie, except those of experts."""
    if part in ("embed", "head"):
        return llama.ends(part)
    at = f"model.layers.{int(part) - 1}"
    return {
        **norm(f"{at}.input_layernorm", "norm1"),
        **llama.attention(f"{at}.self_attn"),
        **norm(f"{at}.post_attention_layernorm", "norm2"),
    }


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    out = tensors(spec, part, config)
    if part in ("embed", "head"):
        return out
    at = f"model.layers.{int(part) - 1}.block_sparse_moe"
    out[f"{at}.gate.weight"] = Stored(("W_R",))
    return {**out, **experts.one_by_one(spec, f"{at}.experts", ("w1", "w3", "w2"))}


def _stacked(_spec: Transformer, part: str, _config: Config) -> Names:
    if part in ("embed", "head"):
        return {}
    at = f"model.layers.{int(part) - 1}.mlp"
    return {f"{at}.gate.weight": Stored(("W_R",)), **experts.stacked(f"{at}.experts")}


def _preset(*sizes: int, **rest: Any) -> Values:
    return llama.preset(
        "mixtral",
        "MixtralForCausalLM",
        *sizes,
        num_experts_per_tok=2,
        num_local_experts=8,
        rms_norm_eps=1e-5,
        rope_theta=1000000.0,
        sliding_window=None,
        **rest,
    )


FAMILY = Family(
    model_type="mixtral",
    base_class="MixtralModel",
    head_classes=("MixtralForCausalLM",),
    label_classes=decoder_labels("Mixtral"),
    defaults={
        **mistral.FAMILY.defaults,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1000000,
        "sliding_window": None,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
    also=("num_experts",),
    read=_read,
    write=_write,
    prefix="model.",
    tensors=_tensors,
    stacked=_stacked,
    choices=llama.CHOICES,
    rest=partial(experts.rest, experts=8, active=2),
    presets={
        "mixtral-8x7b": _preset(32, 4096, 14336, 32, 8, 32000, 32768),
        "mixtral-8x22b": _preset(56, 6144, 16384, 48, 8, 32000, 65536),
    },
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
