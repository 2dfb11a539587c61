"""Llama: pre-RMSNorm, rotary positions, a gated MLP; other families share its names and keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from segre.models.activations import GATES, activation
from segre.models.config import Config
from segre.models.family import (
    Family,
    Names,
    Stored,
    Values,
    decoder_labels,
    linear,
    norm,
    table,
    written_sizes,
)
from segre.models.rope import rope_base, rope_config, rope_rescale
from segre.models.windows import listed
from segre.transformer.spec import Transformer

# What decoders of this kind have where nothing else is said.
DEFAULTS: Values = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": None,
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
CHOICES: Values = {"norm": "rms", "mlp": "swiglu", "pos": "rope", "causal": True}
COPIES = {"lm_head.weight": "tokens"}
BUFFERS = (".rotary_emb.inv_freq",)


def rotary(config: Config, *, latent: bool = False, part: float = 1.0) -> Values:
    """The base of the rotary frequencies, how they are rescaled, and the context."""
    length = config.count("max_position_embeddings")
    rescale = rope_rescale(config.given, length, latent=latent)
    silent = config.family.defaults.get("rope_theta", 10_000)
    base = rope_base(config.given, silent, part=part)
    return {"base": base, "rescale": rescale, "t": length}


def decoder(
    config: Config,
    act: str = "hidden_act",
    gates: Mapping[str, str] = GATES,
    turns: Callable[[Config], Values] = rotary,
) -> Values:
    """The keys of a spec for every decoder of this kind."""
    d = config.count("hidden_size")
    key, value = config.get("head_dim")
    split = value is None and config.family.defaults["head_dim"] is None
    width = config.width("num_attention_heads", of=d) if split else config.count(key)
    out = {
        **config.common(d),
        **turns(config),
        "head": config.even(key, width),
        "ff": config.count("intermediate_size"),
        "mlp": config.named(act, gates),
        "eps": config.number("rms_norm_eps"),
    }
    return out | {"kv": config.key_value_heads(out["heads"])}


def _read(config: Config) -> Values:
    out = decoder(config)
    listed(config, out["layers"])  # the library passes the list over
    return {**out, **biases(config)}


def biases(config: Config) -> Values:
    """Which linear maps have biases: attention, MLPs or both."""
    attention, mlp = config.flag("attention_bias"), config.flag("mlp_bias")
    names = {(True, True): "all", (True, False): "attn", (False, True): "mlp"}
    return {"bias": names.get((attention, mlp), "none")}


def attention_biases(config: Config) -> Values:
    """Biases of attention, in families whose MLPs have none."""
    return {"bias": "attn" if config.flag("attention_bias") else "none"}


def write_biases(spec: Transformer) -> Values:
    """The inverse of `biases`; keys are left out if the library has no biases."""
    found = {"attention_bias": spec.output_bias, "mlp_bias": spec.mlp_bias}
    return {key: True for key, value in found.items() if value}


def written_rotary(spec: Transformer, layer: int = 1) -> Values:
    """The inverse of `rotary` for one layer; other layers may differ."""
    first = spec.at(layer)
    assert not isinstance(first.base, tuple)
    return {
        "max_position_embeddings": spec.t,
        "rope_parameters": rope_config(first.base, first.rescaling),
    }


def write_decoder(
    spec: Transformer, act: str = "hidden_act", gates: Mapping[str, str] = GATES
) -> Values:
    """The keys of a config for every decoder of this kind."""
    return {
        **written_sizes(spec),
        **written_rotary(spec),
        "num_key_value_heads": spec.kv,
        "head_dim": spec.head,
        "rms_norm_eps": float(spec.eps),
        act: activation(gates, spec.mlp),
    }


def _write(spec: Transformer) -> Values:
    return {**write_decoder(spec), **write_biases(spec)}


def ends(part: str, plus: float = 0.0) -> Names:
    """The table of tokens, the last norm, and the unembedding."""
    if part == "embed":
        return table("model.embed_tokens", "tokens")
    return {**norm("model.norm", "norm", plus), "lm_head.weight": Stored(("W_U",))}


def attention(own: str, plus: float = 0.0) -> Names:
    """Queries, keys, values, their norms, and outputs."""
    return {
        **linear(f"{own}.q_proj", "Q"),
        **linear(f"{own}.k_proj", "K"),
        **linear(f"{own}.v_proj", "V"),
        **norm(f"{own}.q_norm", "normq", plus),
        **norm(f"{own}.k_norm", "normk", plus),
        **linear(f"{own}.o_proj", "O"),
    }


def gated(own: str) -> Names:
    """A gated MLP."""
    return {
        **linear(f"{own}.gate_proj", "gate"),
        **linear(f"{own}.up_proj", "up"),
        **linear(f"{own}.down_proj", "down"),
    }


def tensors(_spec: Transformer, part: str, _config: Config, plus: float = 0.0) -> Names:
    """Where the tensors of a part lie; `plus` is what the model adds to a stored gain."""
    if part in ("embed", "head"):
        return ends(part, plus)
    at = f"model.layers.{int(part) - 1}"
    return {
        **norm(f"{at}.input_layernorm", "norm1", plus),
        **attention(f"{at}.self_attn"),
        **norm(f"{at}.post_attention_layernorm", "norm2", plus),
        **gated(f"{at}.mlp"),
    }


def preset(
    model_type: str,
    architecture: str,
    layers: int,
    width: int,
    ff: int,
    heads: int,
    kv: int,
    vocab: int,
    length: int,
    **rest: Any,
) -> Values:
    """What public configs of decoders say."""
    return {
        "model_type": model_type,
        "architectures": [architecture],
        "hidden_size": width,
        "intermediate_size": ff,
        "max_position_embeddings": length,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv,
        "vocab_size": vocab,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        **rest,
    }


def _preset(*sizes: int, **rest: Any) -> Values:
    return preset("llama", "LlamaForCausalLM", *sizes, **{"rms_norm_eps": 1e-5, **rest})


FAMILY = Family(
    model_type="llama",
    base_class="LlamaModel",
    head_classes=("LlamaForCausalLM",),
    label_classes=decoder_labels("Llama"),
    defaults={
        **DEFAULTS,
        "vocab_size": 32000,
        "intermediate_size": 11008,
        "num_key_value_heads": None,
        "max_position_embeddings": 2048,
        "attention_bias": False,
        "mlp_bias": False,
    },
    read=_read,
    write=_write,
    prefix="model.",
    tensors=tensors,
    choices=CHOICES,
    presets={
        "llama-2-7b": _preset(32, 4096, 11008, 32, 32, 32000, 4096),
        "llama-3-8b": _preset(32, 4096, 14336, 32, 8, 128256, 8192, rope_theta=500000.0),
        "llama-3-70b": _preset(80, 8192, 28672, 64, 8, 128256, 8192, rope_theta=500000.0),
        "llama-3.2-1b": _preset(
            *(16, 2048, 8192, 32, 8, 128256, 131072),
            head_dim=64,
            rope_scaling={
                "factor": 32.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192,
                "rope_type": "llama3",
            },
            rope_theta=500000.0,
            tie_word_embeddings=True,
        ),
        "smollm2-135m": _preset(
            *(30, 576, 1536, 9, 3, 49152, 8192), rope_theta=100000, tie_word_embeddings=True
        ),
    },
    copies=COPIES,
    buffers=BUFFERS,
)
