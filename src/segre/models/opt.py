"""OPT: pre- or post-LayerNorm, learned positions from the third row of their table, ReLU."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from segre.errors import SpecError
from segre.models.activations import UNITS, activation
from segre.models.config import Config
from segre.models.family import (
    Family,
    Labelled,
    Names,
    Stored,
    Values,
    answers,
    fourfold,
    linear,
    norm,
    table,
)
from segre.transformer.spec import Transformer

EPS = Fraction(1, 10**5)  # of all norms, whatever a config says
OFFSET = 2
DECODER = "model.decoder"


def _read(config: Config) -> Values:
    d = config.count("hidden_size")
    length = config.count("max_position_embeddings")
    narrow = d
    if config.get("word_embed_proj_dim")[1] is not None:
        narrow = config.count("word_embed_proj_dim")
    if narrow > d:
        raise SpecError(
            f"word_embed_proj_dim: {narrow} is wider than the stream; allowed: at most {d}"
        )
    biased, gain = config.flag("enable_bias"), config.flag("layer_norm_elementwise_affine")
    before = config.flag("do_layer_norm_before")
    return {
        **config.common(d),
        "head": config.width("num_attention_heads", of=d),
        "ff": config.count("ffn_dim"),
        "mlp": config.named("activation_function", UNITS),
        "eps": EPS,
        "gain": gain,
        "bias": "all" if biased else "norm" if gain else "none",
        "place": "pre" if before else "post",
        "final": before and not config.flag("_remove_final_layer_norm"),
        **({"embed": narrow, "project": True} if narrow < d else {}),
        "positions": length + OFFSET,
        "t": length,
    }


def _write(spec: Transformer) -> Values:
    return {
        "hidden_size": spec.d,
        "word_embed_proj_dim": spec.embed or spec.d,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": spec.heads,
        "ffn_dim": spec.ff or 1,
        "max_position_embeddings": spec.t,
        "activation_function": activation(UNITS, spec.mlp),
        "do_layer_norm_before": spec.place != "post",
        "_remove_final_layer_norm": spec.place != "post" and not spec.final,
        "enable_bias": spec.bias == "all",
        "layer_norm_elementwise_affine": spec.gain,
    }


def _tensors(_spec: Transformer, part: str, _config: Config) -> Names:
    if part == "embed":
        return {
            **table(f"{DECODER}.embed_tokens", "tokens"),
            **table(f"{DECODER}.embed_positions", "positions"),
            f"{DECODER}.project_in.weight": Stored(("W_E",)),
        }
    if part == "head":
        return {
            **norm(f"{DECODER}.final_layer_norm", "norm"),
            f"{DECODER}.project_out.weight": Stored(("W_D",)),
            "lm_head.weight": Stored(("W_U",)),
        }
    at = f"{DECODER}.layers.{int(part) - 1}"
    place = "post" if _spec.place == "post" else "norm"
    return {
        **norm(f"{at}.self_attn_layer_norm", f"{place}1"),
        **linear(f"{at}.self_attn.q_proj", "Q"),
        **linear(f"{at}.self_attn.k_proj", "K"),
        **linear(f"{at}.self_attn.v_proj", "V"),
        **linear(f"{at}.self_attn.out_proj", "O"),
        **norm(f"{at}.final_layer_norm", f"{place}2"),
        **linear(f"{at}.fc1", "up"),
        **linear(f"{at}.fc2", "down"),
    }


def _rest(given: Mapping[str, Any]) -> Values:
    learned = given.get("pos", "learned") == "learned"
    return {**fourfold(given), **({} if learned else {"offset": 0})}


def _preset(layers: int, width: int, heads: int, words: int = 0) -> Values:
    return {
        "model_type": "opt",
        "architectures": ["OPTForCausalLM"],
        "activation_function": "relu",
        "do_layer_norm_before": not words,
        "ffn_dim": 4 * width,
        "hidden_size": width,
        "max_position_embeddings": 2048,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "vocab_size": 50272,
        "word_embed_proj_dim": words or width,
    }


FAMILY = Family(
    model_type="opt",
    base_class="OPTModel",
    head_classes=("OPTForCausalLM",),
    label_classes=(
        Labelled("OPTForSequenceClassification", "score", "last", outbias=False),
        answers("OPT"),
    ),
    defaults={
        "vocab_size": 50272,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "ffn_dim": 3072,
        "max_position_embeddings": 2048,
        "activation_function": "relu",
        "do_layer_norm_before": True,
        "_remove_final_layer_norm": False,
        "word_embed_proj_dim": None,
        "enable_bias": True,
        "layer_norm_elementwise_affine": True,
        "tie_word_embeddings": True,
    },
    read=_read,
    write=_write,
    prefix="model.",
    tensors=_tensors,
    choices={
        **{"norm": "layer", "mlp": "relu", "bias": "all", "pos": "learned", "causal": True},
        "offset": OFFSET,
    },
    with_words={"tied": True},
    rest=_rest,
    presets={
        "opt-125m": _preset(12, 768, 12),
        "opt-350m": _preset(24, 1024, 16, 512),
        "opt-1.3b": _preset(24, 2048, 32),
        "opt-2.7b": _preset(32, 2560, 32),
        "opt-6.7b": _preset(32, 4096, 32),
        "opt-13b": _preset(40, 5120, 40),
        "opt-30b": _preset(48, 7168, 56),
        "opt-66b": _preset(64, 9216, 72),
    },
    copies={"lm_head.weight": "tokens"},
)
