"""ELECTRA: a BERT without a pooler, whose table of tokens may have another width."""

from __future__ import annotations

from segre.errors import SpecError
from segre.models import bert
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
)
from segre.transformer.spec import Transformer


def _read(config: Config) -> Values:
    out = bert.read(config)
    width = config.count("embedding_size")
    if out["output"] != "hidden" and out["mlp"] != "gelu":
        raise SpecError(
            "hidden_act: the head always uses gelu; allowed: gelu, or the class ElectraModel, "
            "which has no head"
        )
    return {**out, "embed": width if width != out["d"] else 0}


def _write(spec: Transformer) -> Values:
    return {**bert.write(spec), "embedding_size": spec.embed or spec.d}


def _tensors(_spec: Transformer, part: str, _config: Config) -> Names:
    if part == "embed":
        return {**bert.embeddings("electra."), **linear("electra.embeddings_project", "E")}
    if part == "head":
        return {
            **linear("generator_predictions.dense", "T"),
            **norm("generator_predictions.LayerNorm", "normT"),
            "generator_lm_head.weight": Stored(("W_U",)),
            "generator_lm_head.bias": Stored(("b_U",)),
        }
    return bert.layer(f"electra.encoder.layer.{int(part) - 1}")


def _preset(layers: int, width: int, heads: int, embed: int, head: str) -> Values:
    return {
        **bert.preset(layers, width, heads, head),
        "model_type": "electra",
        "embedding_size": embed,
    }


_GENERATOR, _BARE = "ElectraForMaskedLM", "ElectraModel"

FAMILY = Family(
    model_type="electra",
    base_class=_BARE,
    head_classes=(_GENERATOR, "ElectraForCausalLM"),
    label_classes=(
        Labelled("ElectraForTokenClassification", "classifier", "all"),
        answers("Electra"),
        Labelled(
            "ElectraForSequenceClassification",
            "classifier.out_proj",
            "first",
            transform=True,
            headnorm=False,
            dense_at="classifier.dense",
        ),
        Labelled(
            "ElectraForPreTraining",
            "discriminator_predictions.dense_prediction",
            "all",
            transform=True,
            headnorm=False,
            dense_at="discriminator_predictions.dense",
            count=1,
        ),
    ),
    defaults={
        **bert.DEFAULTS,
        "embedding_size": 128,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    },
    read=_read,
    write=_write,
    prefix="electra.",
    tensors=_tensors,
    choices=bert.CHOICES,
    with_tokens=bert.WITH_TOKENS,
    with_words=bert.WITH_WORDS,
    rest=fourfold,
    presets={
        "electra-small-generator": _preset(12, 256, 4, 128, _GENERATOR),
        "electra-base-generator": _preset(12, 256, 4, 768, _GENERATOR),
        "electra-large-generator": _preset(24, 256, 4, 1024, _GENERATOR),
        "electra-small-discriminator": _preset(12, 256, 4, 128, _BARE),
        "electra-base-discriminator": _preset(12, 768, 12, 768, _BARE),
        "electra-large-discriminator": _preset(24, 1024, 16, 1024, _BARE),
    },
    only=bert.ONLY,
    old_names=bert.OLD_NAMES,
    copies={"generator_lm_head.weight": "tokens"},
    buffers=(".position_ids",),
    unused=("discriminator_predictions.", "generator_predictions.", "generator_lm_head."),
)
