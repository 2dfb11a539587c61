"""Llama: pre-RMSNorm, rotary positions, a gated MLP; other families share its names and keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from segre.models.config import GATES, Config
from segre.models.family import Family, Values, columns, decoder_labels
from segre.models.rope import rope_base, rope_rescale
from segre.models.stored import Layout, Names, Stored, linear, maps, norm, parts, table
from segre.models.windows import layer_types

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


# --- configs --------------------------------------------------------------------------------------


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
    rotations: Callable[[Config], Values] = rotary,
) -> Values:
    """The keys of a spec for every decoder of this kind."""
    key, value = config.get("head_dim")
    split = value is None and config.family.defaults["head_dim"] is None
    width = config.width(config.count("hidden_size")) if split else config.count(key)
    out = {
        **config.common(),
        **rotations(config),
        **biases(config),
        "head": config.even(key, width),
        "ff": config.count("intermediate_size"),
        "mlp": config.named(act, gates),
        "eps": config.number("rms_norm_eps"),
    }
    return out | {"kv": config.key_value_heads(out["heads"])}


def windowless(config: Config, **own: Any) -> Values:
    """The same where the library passes a list of windows over; the list must still be one."""
    out = decoder(config, **own)
    layer_types(config, out["layers"])
    return out


def biases(config: Config) -> Values:
    """Which linear maps have biases, where a config says it: attention, MLPs or both."""
    keys = ("attention_bias", "mlp_bias")
    if keys[0] not in config.family.defaults:
        return {}
    attention, mlp = (key in config.family.defaults and config.flag(key) for key in keys)
    names = {(True, True): "all", (True, False): "attn", (False, True): "mlp"}
    return {"bias": names.get((attention, mlp), "none")}


def all_routed(config: Config, out: Values) -> Values:
    """A decoder whose MLPs are all experts weighted by a softmax."""
    count = config.count("num_experts")
    active = config.count("num_experts_per_tok", largest=count)
    routed = {"ff": 0, "experts": count, "active": active, "eff": out["ff"], "router": "softmax"}
    return {**out, **routed}


def routed_rest(given: Mapping[str, Any], experts: int, active: int) -> Values:
    """Defaults of inline specs: the number of experts, each with the width of the MLP."""
    count = given.get("experts", experts)
    if given.get("mlp") == "none" or not isinstance(count, int) or not count:
        return {}
    wide = {"eff": given["ff"]} if given.get("ff") else {}
    return {"experts": count, "active": min(active, count), "router": "softmax", **wide}


# --- files ----------------------------------------------------------------------------------------


def attention(plus: float = 0.0) -> Names:
    """Queries, keys, values, their norms, and outputs."""
    return {
        **maps("self_attn.", Q="q_proj", K="k_proj", V="v_proj"),
        **norm("self_attn.q_norm", "normq", plus=plus),
        **norm("self_attn.k_norm", "normk", plus=plus),
        **linear("self_attn.o_proj", "O"),
    }


GATED = maps("mlp.", gate="gate_proj", up="up_proj", down="down_proj")
ROUTER = {"mlp.gate.weight": Stored(("W_R",))}


def normed(before: Names, after: Names = GATED, plus: float = 0.0) -> Names:
    """A layer with norms before attention and before the MLP; `plus` is added to stored gains."""
    return {
        **norm("input_layernorm", "norm1", plus=plus),
        **before,
        **norm("post_attention_layernorm", "norm2", plus=plus),
        **after,
    }


def layout(layer: Names, plus: float = 0.0) -> Layout:
    """Where the tensors of a decoder lie: the table, the last norm, the unembedding, layers."""
    head = {**norm("model.norm", "norm", plus=plus), "lm_head.weight": Stored(("W_U",))}
    return parts(table("model.embed_tokens", "tokens"), head, "model.layers.{}.", layer)


TENSORS = layout(normed(attention()))


# --- families -------------------------------------------------------------------------------------


sizes = columns(  # of decoders, in configs and as defaults
    *("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads"),
    *("num_key_value_heads", "vocab_size", "max_position_embeddings"),
)


def family(model_type: str, name: str, *, defaults: Values, labels: int = 3, **own: Any) -> Family:
    """A decoder with Llama's names of classes, of tensors and of what is tied or constant.

    `own` are fields of a `Family`; `labels` is how many of the classes with labels there are.
    """
    usual: dict[str, Any] = {
        "base_class": f"{name}Model",
        "head_classes": (f"{name}ForCausalLM",),
        "label_classes": decoder_labels(name)[:labels],
        "prefix": "model.",
        "tensors": TENSORS,
        "choices": CHOICES,
        "copies": {"lm_head.weight": "tokens"},
        "buffers": (".rotary_emb.inv_freq",),
        "read": windowless,
    }
    return Family(model_type=model_type, defaults={**DEFAULTS, **defaults}, **{**usual, **own})


_LLAMA_2: Values = {"rms_norm_eps": 1e-5}
_LLAMA_3: Values = {"rms_norm_eps": 1e-5, "rope_theta": 500000.0}
FAMILY = family(
    "llama",
    "Llama",
    defaults=sizes(*(32, 4096, 11008, 32, None, 32000, 2048), attention_bias=False, mlp_bias=False),
    models={
        "llama-2-7b": sizes(32, 4096, 11008, 32, 32, 32000, 4096, **_LLAMA_2),
        "llama-3-8b": sizes(32, 4096, 14336, 32, 8, 128256, 8192, **_LLAMA_3),
        "llama-3-70b": sizes(80, 8192, 28672, 64, 8, 128256, 8192, **_LLAMA_3),
        "llama-3.2-1b": sizes(
            *(16, 2048, 8192, 32, 8, 128256, 131072),
            **_LLAMA_3,
            head_dim=64,
            rope_scaling={
                "factor": 32.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192,
                "rope_type": "llama3",
            },
            tie_word_embeddings=True,
        ),
        "smollm2-135m": sizes(
            *(30, 576, 1536, 9, 3, 49152, 8192),
            **_LLAMA_2,
            rope_theta=100000,
            tie_word_embeddings=True,
        ),
    },
)
