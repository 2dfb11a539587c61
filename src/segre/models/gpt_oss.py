"""gpt-oss: experts with biases and a clamped gate, sinks, and windows in every other layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segre.models import experts, llama
from segre.models.config import Config
from segre.models.family import Family, Names, Stored, Values, decoder_labels, norm
from segre.models.rope import rope_base, rope_rescale
from segre.models.windows import chosen, window, written
from segre.transformer.spec import Transformer

BASE = 150_000
# What the library has where a config says nothing of rotations.
ROPE: Values = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


def _rotary(config: Config) -> Values:
    given, length = config.given, config.count("max_position_embeddings")
    if not given.get("rope_scaling") and given.get("rope_parameters") is None:
        given = {**given, "rope_parameters": ROPE}
    return {"base": rope_base(given, BASE), "rescale": rope_rescale(given, length), "t": length}


def _read(config: Config) -> Values:
    out = llama.decoder(config, turns=_rotary)
    return {
        **experts.all_routed(config, out),
        "window": chosen(config, out["layers"], window(config), lambda i: i % 2 == 0),
        **llama.attention_biases(config),
        "mlp": "clamped",  # the library passes hidden_act over
        "limit": config.cap("swiglu_limit"),
    }


def _write(spec: Transformer) -> Values:
    return {
        **llama.write_decoder(spec),
        **written(spec),
        "attention_bias": spec.bias == "attn",
        **experts.written_routed(spec),
        "swiglu_limit": float(spec.limit) or None,
    }


def _tensors(_spec: Transformer, part: str, _config: Config) -> Names:
    if part in ("embed", "head"):
        return llama.ends(part)
    at = f"model.layers.{int(part) - 1}"
    of = f"{at}.mlp.experts"
    both = Stored(("W_gate", "W_up"), columns=True, stacked=True, alternate=True)
    return {
        **norm(f"{at}.input_layernorm", "norm1"),
        **llama.attention(f"{at}.self_attn"),
        f"{at}.self_attn.sinks": Stored(("sinks",)),
        **norm(f"{at}.post_attention_layernorm", "norm2"),
        f"{at}.mlp.router.weight": Stored(("W_R",)),
        f"{at}.mlp.router.bias": Stored(("c_R",)),
        f"{of}.gate_up_proj": both,
        f"{of}.gate_up_proj_bias": Stored(("c_gate", "c_up"), stacked=True, alternate=True),
        f"{of}.down_proj": Stored(("W_down",), columns=True, stacked=True),
        f"{of}.down_proj_bias": Stored(("c_down",), stacked=True),
    }


def _rest(given: Mapping[str, Any]) -> Values:
    """Experts with biases and clamped units, unless the spec has another MLP."""
    if given.get("mlp", "clamped") != "clamped":
        return {}
    found = experts.rest(given, 4, 2)
    return {"mlp": "clamped", "limit": 7, "expbias": bool(found), **found}


def _preset(layers: int, count: int) -> Values:
    return {
        "model_type": "gpt_oss",
        "architectures": ["GptOssForCausalLM"],
        "attention_bias": True,
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "max_position_embeddings": 131072,
        "num_attention_heads": 64,
        "num_experts_per_tok": 4,
        "num_hidden_layers": layers,
        "num_key_value_heads": 8,
        "num_local_experts": count,
        "rms_norm_eps": 1e-5,
        "rope_scaling": ROPE,
        "rope_theta": BASE,
        "sliding_window": 128,
        "swiglu_limit": 7.0,
        "tie_word_embeddings": False,
        "vocab_size": 201088,
    }


FAMILY = Family(
    model_type="gpt_oss",
    base_class="GptOssModel",
    head_classes=("GptOssForCausalLM",),
    label_classes=decoder_labels("GptOss")[:2],
    defaults={
        **llama.DEFAULTS,
        "vocab_size": 201088,
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_hidden_layers": 36,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "attention_bias": True,
        "sliding_window": 128,
        "layer_types": None,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "swiglu_limit": 7.0,
    },
    also=("num_experts",),
    only={"swiglu_alpha": (1.702,)},
    read=_read,
    write=_write,
    prefix="model.",
    tensors=_tensors,
    choices={**llama.CHOICES, "bias": "attn", "sinks": True},
    rest=_rest,
    presets={"gpt-oss-20b": _preset(24, 32), "gpt-oss-120b": _preset(36, 128)},
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
