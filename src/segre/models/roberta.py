"""RoBERTa: a BERT whose positions are numbered from the padding token's id on.

XLM-RoBERTa has a vocabulary of a hundred languages.
"""

from __future__ import annotations

from collections.abc import Mapping

from segre.errors import SpecError
from segre.models import bert
from segre.models.config import Config
from segre.models.family import Family, Labelled, Values, answers
from segre.models.stored import linear, norm


def _read(config: Config) -> Values:
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


_HEAD = {
    **linear("roberta.pooler.dense", "pool"),
    **linear("lm_head.dense", "T"),
    **norm("lm_head.layer_norm", "normT"),
}


def _family(model_type: str, name: str, vocab: int, models: Mapping[str, Values]) -> Family:
    """A family with the classes and tensors of RoBERTa."""
    embed, layers = bert.embeddings("roberta."), "roberta.encoder.layer.{}."
    return bert.family(
        model_type,
        name,
        heads=("ForMaskedLM", "ForCausalLM"),
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
        read=_read,
        prefix="roberta.",
        **bert.two_biases("lm_head", embed, _HEAD, layers, bert.LAYER),
        choices={**bert.CHOICES, "offset": 2},
        with_tokens={"types": 1, "embnorm": True},
        models={name: {**_ROBERTA, "vocab_size": vocab, **own} for name, own in models.items()},
        unused=("pooler.",),
    )


_ROBERTA = {"layer_norm_eps": 1e-5, "max_position_embeddings": 514, "type_vocab_size": 1}
ROBERTA = _family(
    "roberta",
    "Roberta",
    50265,
    {
        "roberta-base": {},
        "roberta-large": bert.sizes(24, 1024, 16),
        "distilroberta-base": bert.sizes(6, 768, 12),
    },
)

_VOCABULARY: Values = {"vocab_size": 250002}  # of the public models
XLM_ROBERTA = _family(
    "xlm-roberta",
    "XLMRoberta",
    30522,
    {
        "xlm-roberta-base": _VOCABULARY,
        "xlm-roberta-large": bert.sizes(24, 1024, 16, **_VOCABULARY),
    },
)
