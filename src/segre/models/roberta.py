"""RoBERTa: a BERT whose positions begin after the padding token's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

BIAS, UNTIED_BIAS = "lm_head.bias", "lm_head.decoder.bias"


def read(config: Config) -> Values:
    """The keys of a spec that a config gives."""
    out = bert.read(config)
    offset = config.count("pad_token_id", smallest=0) + 1
    if out["positions"] <= offset:
        raise SpecError(
            f"max_position_embeddings: {out['positions']} leaves no positions after that of "
            f"pad_token_id={offset - 1}"
        )
    if out["output"] != "hidden" and out["mlp"] != "gelu":
        raise SpecError(
            "hidden_act: the head always uses gelu; allowed: gelu, or the class "
            f"{config.family.base_class}, which has no head"
        )
    return {**out, "offset": offset, "t": out["positions"] - offset}


def write(spec: Transformer) -> Values:
    """The keys of a config that a spec gives."""
    return {**bert.write(spec), "pad_token_id": max(0, spec.offset - 1)}


def tensors(spec: Transformer, part: str, _config: Config) -> Names:
    """Where the tensors of a part lie."""
    if part == "embed":
        return bert.embeddings("roberta.")
    if part == "head":
        return {
            **linear("roberta.pooler.dense", "pool"),
            **linear("lm_head.dense", "T"),
            **norm("lm_head.layer_norm", "normT"),
            "lm_head.decoder.weight": Stored(("W_U",)),
            BIAS if spec.tied else UNTIED_BIAS: Stored(("b_U",)),
        }
    return bert.layer(f"roberta.encoder.layer.{int(part) - 1}")


def rest(given: Mapping[str, Any]) -> Values:
    """MLPs as in BERT, and no offset without learned positions."""
    return {
        **fourfold(given),
        **({"offset": 0} if given.get("pos", "learned") != "learned" else {}),
    }


def family(model_type: str, name: str, vocab: int, presets: Mapping[str, Values]) -> Family:
    """A family with the classes and tensors of RoBERTa."""
    return Family(
        model_type=model_type,
        base_class=f"{name}Model",
        head_classes=(f"{name}ForMaskedLM", f"{name}ForCausalLM"),
        label_classes=(
            Labelled(
                f"{name}ForSequenceClassification",
                "classifier.out_proj",
                "first",
                pooler=True,
                pooled_at="classifier.dense",
            ),
            Labelled(f"{name}ForTokenClassification", "classifier", "all"),
            answers(name),
        ),
        defaults={**bert.DEFAULTS, "vocab_size": vocab, "pad_token_id": 1},
        read=read,
        write=write,
        prefix="roberta.",
        tensors=tensors,
        choices={**bert.CHOICES, "offset": 2},
        with_tokens={**bert.WITH_TOKENS, "types": 1},
        with_words=bert.WITH_WORDS,
        rest=rest,
        presets=presets,
        only=bert.ONLY,
        pooler=True,
        old_names=(*bert.OLD_NAMES, (BIAS, UNTIED_BIAS), (UNTIED_BIAS, BIAS)),
        copies={"lm_head.decoder.weight": "tokens", UNTIED_BIAS: "b_U"},
        buffers=(".position_ids", BIAS),  # untied models have the bias, and do not use it
        unused=("pooler.",),
    )


def preset(model_type: str, head: str, vocab: int, layers: int, width: int, heads: int) -> Values:
    """What public configs say."""
    return {
        **bert.preset(layers, width, heads, head),
        "model_type": model_type,
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": 514,
        "pad_token_id": 1,
        "type_vocab_size": 1,
        "vocab_size": vocab,
    }


def _preset(*sizes: int) -> Values:
    return preset("roberta", "RobertaForMaskedLM", 50265, *sizes)


FAMILY = family(
    "roberta",
    "Roberta",
    50265,
    {
        "roberta-base": _preset(12, 768, 12),
        "roberta-large": _preset(24, 1024, 16),
        "distilroberta-base": _preset(6, 768, 12),
    },
)
