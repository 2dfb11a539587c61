"""ALBERT: a BERT whose layers share their weights, with a narrow table of tokens."""

from __future__ import annotations

from segre.models import bert
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
)
from segre.transformer.spec import Transformer

BIAS, UNTIED_BIAS = "predictions.bias", "predictions.decoder.bias"


def _read(config: Config) -> Values:
    return {**bert.read(config), "embed": config.count("embedding_size")}


def _write(spec: Transformer) -> Values:
    return {**bert.write(spec), "embedding_size": spec.embed or spec.d}


def _tensors(spec: Transformer, part: str, _config: Config) -> Names:
    if part == "embed":
        return {
            **bert.embeddings("albert."),
            **linear("albert.encoder.embedding_hidden_mapping_in", "E"),
        }
    if part == "head":
        return {
            **linear("albert.pooler", "pool"),
            **linear("predictions.dense", "T"),
            **norm("predictions.LayerNorm", "normT"),
            "predictions.decoder.weight": Stored(("W_U",)),
            BIAS if spec.tied else UNTIED_BIAS: Stored(("b_U",)),
            **linear("sop_classifier.classifier", "rel"),
        }
    at = "albert.encoder.albert_layer_groups.0.albert_layers.0"
    return {
        **linear(f"{at}.attention.query", "Q"),
        **linear(f"{at}.attention.key", "K"),
        **linear(f"{at}.attention.value", "V"),
        **linear(f"{at}.attention.dense", "O"),
        **norm(f"{at}.attention.LayerNorm", "post1"),
        **linear(f"{at}.ffn", "up"),
        **linear(f"{at}.ffn_output", "down"),
        **norm(f"{at}.full_layer_layer_norm", "post2"),
    }


FAMILY = Family(
    model_type="albert",
    base_class="AlbertModel",
    head_classes=("AlbertForMaskedLM",),
    label_classes=encoder_labels("Albert"),
    related_class="AlbertForPreTraining",
    defaults={
        **bert.DEFAULTS,
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
    },
    read=_read,
    write=_write,
    prefix="albert.",
    tensors=_tensors,
    choices={**bert.CHOICES, "mlp": "gelu-tanh", "share": True},
    with_tokens=bert.WITH_TOKENS,
    with_words=bert.WITH_WORDS,
    rest=fourfold,
    presets={
        "albert-base-v2": {
            **bert.preset(12, 768, 12, "AlbertForMaskedLM"),
            "model_type": "albert",
            "embedding_size": 128,
            "hidden_act": "gelu_new",
            "inner_group_num": 1,
            "num_hidden_groups": 1,
            "vocab_size": 30000,
        }
    },
    only={**bert.ONLY, "num_hidden_groups": (1,), "inner_group_num": (1,)},
    pooler=True,
    old_names=(*bert.OLD_NAMES, (BIAS, UNTIED_BIAS), (UNTIED_BIAS, BIAS)),
    copies={"predictions.decoder.weight": "tokens", UNTIED_BIAS: "b_U"},
    buffers=(".position_ids", BIAS),  # untied models have the bias, and do not use it
    unused=("pooler.", "sop_classifier."),
)
