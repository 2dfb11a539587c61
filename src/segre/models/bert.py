"""BERT: post-LayerNorm, token types, and a pooler or a transform before a tied table."""

from __future__ import annotations

from typing import Any

from segre.models.activations import UNITS, activation
from segre.models.config import Config
from segre.models.family import (
    Family,
    Names,
    Stored,
    Values,
    encoder_labels,
    fourfold,
    linear,
    norm,
    table,
    written_sizes,
)
from segre.transformer.spec import Transformer

# The bias of the vocabulary; and the one that an untied model uses instead of it.
BIAS, UNTIED_BIAS = "cls.predictions.bias", "cls.predictions.decoder.bias"
DEFAULTS: Values = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "tie_word_embeddings": True,
}
CHOICES = {"norm": "layer", "place": "post", "mlp": "gelu", "bias": "all", "pos": "learned"}
WITH_TOKENS = {"types": 2, "embnorm": True}
WITH_WORDS = {"tied": True, "transform": True, "outbias": True}
ONLY: dict[str, tuple[Any, ...]] = {
    "is_causal": (False,),
    "is_decoder": (False,),
    "position_embedding_type": ("absolute",),
}
OLD_NAMES = (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta"))


def read(config: Config) -> Values:
    """The keys of a spec that a config gives."""
    d = config.count("hidden_size")
    length = config.count("max_position_embeddings")
    return {
        **config.common(d),
        "head": config.width("num_attention_heads", of=d),
        "ff": config.count("intermediate_size"),
        "mlp": config.named("hidden_act", UNITS),
        "eps": config.number("layer_norm_eps"),
        "types": config.count("type_vocab_size"),
        "positions": length,
        "t": length,
    }


def write(spec: Transformer) -> Values:
    """The keys of a config that a spec gives."""
    return {
        **written_sizes(spec),
        "max_position_embeddings": spec.positions or spec.t,
        "type_vocab_size": spec.types or 1,
        "layer_norm_eps": float(spec.eps),
        "hidden_act": activation(UNITS, spec.mlp),
    }


def embeddings(prefix: str) -> Names:
    """The tables of tokens, positions and types, and their norm."""
    at = f"{prefix}embeddings"
    return {
        **table(f"{at}.word_embeddings", "tokens"),
        **table(f"{at}.position_embeddings", "positions"),
        **table(f"{at}.token_type_embeddings", "types"),
        **norm(f"{at}.LayerNorm", "norm"),
    }


def _tensors(spec: Transformer, part: str, _config: Config) -> Names:
    if part == "embed":
        return embeddings("bert.")
    if part == "head":
        return {
            **linear("bert.pooler.dense", "pool"),
            **linear("cls.predictions.transform.dense", "T"),
            **norm("cls.predictions.transform.LayerNorm", "normT"),
            "cls.predictions.decoder.weight": Stored(("W_U",)),
            BIAS if spec.tied else UNTIED_BIAS: Stored(("b_U",)),
            **linear("cls.seq_relationship", "rel"),
        }
    return layer(f"bert.encoder.layer.{int(part) - 1}")


def layer(at: str) -> Names:
    """The tensors of a layer."""
    return {
        **linear(f"{at}.attention.self.query", "Q"),
        **linear(f"{at}.attention.self.key", "K"),
        **linear(f"{at}.attention.self.value", "V"),
        **linear(f"{at}.attention.output.dense", "O"),
        **norm(f"{at}.attention.output.LayerNorm", "post1"),
        **linear(f"{at}.intermediate.dense", "up"),
        **linear(f"{at}.output.dense", "down"),
        **norm(f"{at}.output.LayerNorm", "post2"),
    }


def preset(layers: int, width: int, heads: int, head: str = "BertForMaskedLM") -> Values:
    """What public configs say."""
    return {
        "model_type": "bert",
        "architectures": [head],
        "hidden_act": "gelu",
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "type_vocab_size": 2,
        "vocab_size": 30522,
    }


FAMILY = Family(
    model_type="bert",
    base_class="BertModel",
    head_classes=("BertForMaskedLM", "BertLMHeadModel"),
    label_classes=encoder_labels("Bert"),
    related_class="BertForPreTraining",
    related=2,
    defaults=DEFAULTS,
    read=read,
    write=write,
    prefix="bert.",
    tensors=_tensors,
    choices=CHOICES,
    with_tokens=WITH_TOKENS,
    with_words=WITH_WORDS,
    rest=fourfold,
    presets={
        "bert-base-uncased": preset(12, 768, 12),
        "bert-large-uncased": preset(24, 1024, 16),
        "minilm-l6-v2": preset(6, 384, 12, "BertModel"),
    },
    only=ONLY,
    pooler=True,
    old_names=(*OLD_NAMES, (BIAS, UNTIED_BIAS), (UNTIED_BIAS, BIAS)),
    copies={"cls.predictions.decoder.weight": "tokens", UNTIED_BIAS: "b_U"},
    buffers=(".position_ids", BIAS),  # untied models have the bias, and do not use it
    unused=("pooler.", "cls.seq_relationship."),
)
