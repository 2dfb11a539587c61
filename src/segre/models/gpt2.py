"""GPT-2: pre-LayerNorm, learned positions, one joint map for queries, keys and values."""

from __future__ import annotations

from segre.models.config import Config
from segre.models.family import Family, Values, decoder_labels, fourfold
from segre.models.stored import Stored, linear, norm, parts, table


def _read(config: Config) -> Values:
    out, inner = config.blocks(), config.get("n_inner")[1]
    return {
        **out,
        **config.learned(),
        "ff": 4 * out["d"] if inner is None else config.count("n_inner"),
        "scale": 0 if config.flag("scale_attn_weights") else 1,
        "bylayer": config.flag("scale_attn_by_inverse_layer_idx"),
    }


_HEAD = {**norm("transformer.ln_f", "norm"), "lm_head.weight": Stored(("W_U",))}
_LAYER = {
    **norm("ln_1", "norm1"),
    **linear("attn.c_attn", "Q", "K", "V", columns=True),
    **linear("attn.c_proj", "O", columns=True),
    **norm("ln_2", "norm2"),
    **linear("mlp.c_fc", "up", columns=True),
    **linear("mlp.c_proj", "down", columns=True),
}
_EMBED = {**table("transformer.wte", "tokens"), **table("transformer.wpe", "positions")}
_CHOICES = {"norm": "layer", "mlp": "gelu-tanh", "bias": "all", "pos": "learned", "causal": True}
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
    prefix="transformer.",
    tensors=parts(_EMBED, _HEAD, "transformer.h.{}.", _LAYER),
    choices=_CHOICES,
    with_words={"tied": True},
    rest=fourfold,
    models={
        "gpt2": {},
        "gpt2-medium": {"n_layer": 24, "n_embd": 1024, "n_head": 16},
        "gpt2-large": {"n_layer": 36, "n_embd": 1280, "n_head": 20},
        "gpt2-xl": {"n_layer": 48, "n_embd": 1600, "n_head": 25},
    },
    own={
        "hidden_size": "n_embd",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "max_position_embeddings": "n_positions",
        "hidden_act": "activation_function",
        "layer_norm_eps": "layer_norm_epsilon",
    },
    also=("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"),
    copies={"lm_head.weight": "tokens"},
    buffers=(".attn.bias", ".attn.masked_bias"),
)
