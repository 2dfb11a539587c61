"""GPT-2: pre-LayerNorm, learned positions, one joint map for queries, keys and values."""

from __future__ import annotations

from segre.models.activations import UNITS, activation
from segre.models.config import Config
from segre.models.family import (
    Family,
    Names,
    Stored,
    Values,
    decoder_labels,
    fourfold,
    linear,
    norm,
    table,
)
from segre.transformer.spec import Transformer


def _read(config: Config) -> Values:
    d = config.count("n_embd", "hidden_size")
    inner = config.get("n_inner")[1]
    length = config.count("n_positions", "max_position_embeddings")
    heads = ("n_head", "num_attention_heads")
    return {
        **config.common(d, ("n_layer", "num_hidden_layers"), heads),
        "head": config.width(*heads, of=d),
        "ff": 4 * d if inner is None else config.count("n_inner"),
        "mlp": config.named("activation_function", UNITS),
        "eps": config.number("layer_norm_epsilon"),
        "positions": length,
        "t": length,
        "scale": 0 if config.flag("scale_attn_weights") else 1,
        "bylayer": config.flag("scale_attn_by_inverse_layer_idx"),
    }


def _write(spec: Transformer) -> Values:
    return {
        "n_embd": spec.d,
        "n_layer": spec.layers,
        "n_head": spec.heads,
        "n_inner": spec.ff or None,
        "n_positions": spec.positions or spec.t,
        "layer_norm_epsilon": float(spec.eps),
        "activation_function": activation(UNITS, spec.mlp),
        "scale_attn_weights": not spec.scale,
        "scale_attn_by_inverse_layer_idx": spec.bylayer,
    }


def _tensors(_spec: Transformer, part: str, _config: Config) -> Names:
    if part == "embed":
        return {**table("transformer.wte", "tokens"), **table("transformer.wpe", "positions")}
    if part == "head":
        return {**norm("transformer.ln_f", "norm"), "lm_head.weight": Stored(("W_U",))}
    at = f"transformer.h.{int(part) - 1}"
    return {
        **norm(f"{at}.ln_1", "norm1"),
        **linear(f"{at}.attn.c_attn", "Q", "K", "V", columns=True),
        **linear(f"{at}.attn.c_proj", "O", columns=True),
        **norm(f"{at}.ln_2", "norm2"),
        **linear(f"{at}.mlp.c_fc", "up", columns=True),
        **linear(f"{at}.mlp.c_proj", "down", columns=True),
    }


def _preset(layers: int, width: int, heads: int) -> Values:
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "n_embd": width,
        "n_head": heads,
        "n_layer": layers,
        "n_positions": 1024,
        "vocab_size": 50257,
    }


FAMILY = Family(
    model_type="gpt2",
    base_class="GPT2Model",
    head_classes=("GPT2LMHeadModel",),
    label_classes=decoder_labels("GPT2", "classifier"),
    defaults={
        "vocab_size": 50257,
        "n_positions": 1024,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
    },
    read=_read,
    write=_write,
    prefix="transformer.",
    tensors=_tensors,
    choices={
        "norm": "layer",
        "mlp": "gelu-tanh",
        "bias": "all",
        "pos": "learned",
        "causal": True,
    },
    with_words={"tied": True},
    rest=fourfold,
    presets={
        "gpt2": _preset(12, 768, 12),
        "gpt2-medium": _preset(24, 1024, 16),
        "gpt2-large": _preset(36, 1280, 20),
        "gpt2-xl": _preset(48, 1600, 25),
    },
    also=("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"),
    copies={"lm_head.weight": "tokens"},
    buffers=(".attn.bias", ".attn.masked_bias"),
)
