"""BERT: post-LayerNorm, token types, and a pooler or a transform before a tied table."""

from __future__ import annotations

from typing import Any

from segre.models.config import Config
from segre.models.family import Family, Values, encoder_labels, fourfold
from segre.models.stored import Names, Stored, linear, maps, norm, parts, table
from segre.transformer.spec import Transformer


def sizes(
    layers: int, width: int, heads: int, *, inner: str = "intermediate_size", **rest: Any
) -> Values:
    """What configs of public models say beside the defaults; `inner` is the width of the MLPs."""
    out = {"num_hidden_layers": layers, "hidden_size": width, inner: 4 * width}
    return {**out, "num_attention_heads": heads, **rest}


DEFAULTS: Values = {
    **sizes(12, 768, 12, vocab_size=30522, max_position_embeddings=512),
    "hidden_act": "gelu",
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "tie_word_embeddings": True,
}
CHOICES = {"norm": "layer", "place": "post", "mlp": "gelu", "bias": "all", "pos": "learned"}
ONLY: dict[str, tuple[Any, ...]] = {
    "is_causal": (False,),
    "is_decoder": (False,),
    "position_embedding_type": ("absolute",),
}
OLD_NAMES = (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta"))
LAYER: Names = {
    **maps("attention.", Q="self.query", K="self.key", V="self.value", O="output.dense"),
    **norm("attention.output.LayerNorm", "post1"),
    **maps("", up="intermediate.dense", down="output.dense"),
    **norm("output.LayerNorm", "post2"),
}


def read(config: Config) -> Values:
    """The keys of a spec that a config gives."""
    return {
        **config.blocks(),
        **config.learned(),
        "ff": config.count("intermediate_size"),
        "types": config.count("type_vocab_size"),
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


def family(model_type: str, name: str, *, heads: tuple[str, ...], **own: Any) -> Family:
    """A family with the constants of BERT, where nothing else is said.

    `heads` are endings of its classes; `own` are fields of a `Family`.
    """
    usual: dict[str, Any] = {
        "base_class": f"{name}Model",
        "defaults": DEFAULTS,
        "read": read,
        "prefix": f"{model_type}.",
        "choices": CHOICES,
        "with_tokens": {"types": 2, "embnorm": True},
        "with_words": {"tied": True, "transform": True, "outbias": True},
        "rest": fourfold,
        "only": ONLY,
        "old_names": OLD_NAMES,
        "buffers": (".position_ids",),
    }
    classes = tuple(f"{name}{head}" for head in heads)
    return Family(model_type=model_type, head_classes=classes, **{**usual, **own})


def two_biases(at: str, embed: Names, head: Names, start: str, layer: Names) -> Values:
    """Fields of a family whose tables have a bias; untied models have it and use another."""
    bias, untied = f"{at}.bias", f"{at}.decoder.bias"
    unembedding = {f"{at}.decoder.weight": Stored(("W_U",))}

    def tensors(spec: Transformer, part: str, config: Config) -> Names:
        own = {bias if spec.tied else untied: Stored(("b_U",))}
        return parts(embed, {**head, **unembedding, **own}, start, layer)(spec, part, config)

    return {
        "tensors": tensors,
        "old_names": (*OLD_NAMES, (bias, untied), (untied, bias)),
        "copies": {f"{at}.decoder.weight": "tokens", untied: "b_U"},
        "buffers": (".position_ids", bias),
        "pooler": True,
    }


_HEAD = {
    **linear("bert.pooler.dense", "pool"),
    **linear("cls.predictions.transform.dense", "T"),
    **norm("cls.predictions.transform.LayerNorm", "normT"),
    **linear("cls.seq_relationship", "rel"),
}
FAMILY = family(
    "bert",
    "Bert",
    heads=("ForMaskedLM", "LMHeadModel"),
    label_classes=encoder_labels("Bert"),
    related_class="BertForPreTraining",
    related=2,
    **two_biases("cls.predictions", embeddings("bert."), _HEAD, "bert.encoder.layer.{}.", LAYER),
    models={
        "bert-base-uncased": {},
        "bert-large-uncased": sizes(24, 1024, 16),
        "minilm-l6-v2": sizes(6, 384, 12, architectures=["BertModel"]),
    },
    unused=("pooler.", "cls.seq_relationship."),
)
