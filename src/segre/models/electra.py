"""ELECTRA: a BERT without a pooler, whose table of tokens may have another width.

ALBERT has a narrow table, too, and layers that share their weights.
"""

from __future__ import annotations

from segre.errors import SpecError
from segre.models import bert
from segre.models.config import Config
from segre.models.family import Labelled, Values, answers, encoder_labels
from segre.models.stored import Stored, linear, maps, norm, parts


def _read(config: Config) -> Values:
    out = bert.read(config)
    width = config.count("embedding_size")
    if out["output"] != "hidden" and out["mlp"] != "gelu":
        raise SpecError(
            "hidden_act: the head always uses gelu; allowed: gelu, or the class ElectraModel, "
            "which has no head"
        )
    return {**out, "embed": width if width != out["d"] else 0}


def _read_shared(config: Config) -> Values:
    return {**bert.read(config), "embed": config.count("embedding_size")}


_EMBED = {**bert.embeddings("electra."), **linear("electra.embeddings_project", "E")}
_HEAD = {
    **linear("generator_predictions.dense", "T"),
    **norm("generator_predictions.LayerNorm", "normT"),
    "generator_lm_head.weight": Stored(("W_U",)),
    "generator_lm_head.bias": Stored(("b_U",)),
}
_DISCRIMINATOR: Values = {"architectures": ["ElectraModel"]}
ELECTRA = bert.family(
    "electra",
    "Electra",
    heads=("ForMaskedLM", "ForCausalLM"),
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
    defaults={**bert.DEFAULTS, **bert.sizes(12, 256, 4, embedding_size=128)},
    read=_read,
    tensors=parts(_EMBED, _HEAD, "electra.encoder.layer.{}.", bert.LAYER),
    models={
        "electra-small-generator": {},
        "electra-base-generator": {"embedding_size": 768},
        "electra-large-generator": bert.sizes(24, 256, 4, embedding_size=1024),
        "electra-small-discriminator": _DISCRIMINATOR,
        "electra-base-discriminator": bert.sizes(
            *(12, 768, 12), **_DISCRIMINATOR, embedding_size=768
        ),
        "electra-large-discriminator": bert.sizes(
            *(24, 1024, 16), **_DISCRIMINATOR, embedding_size=1024
        ),
    },
    copies={"generator_lm_head.weight": "tokens"},
    unused=("discriminator_predictions.", "generator_predictions.", "generator_lm_head."),
)

_ALBERT_EMBED = {
    **bert.embeddings("albert."),
    **linear("albert.encoder.embedding_hidden_mapping_in", "E"),
}
_ALBERT_HEAD = {
    **linear("albert.pooler", "pool"),
    **linear("predictions.dense", "T"),
    **norm("predictions.LayerNorm", "normT"),
    **linear("sop_classifier.classifier", "rel"),
}
_SHARED = "albert.encoder.albert_layer_groups.0.albert_layers.0."
_ALBERT_LAYER = {
    **maps("attention.", Q="query", K="key", V="value", O="dense"),
    **norm("attention.LayerNorm", "post1"),
    **maps("", up="ffn", down="ffn_output"),
    **norm("full_layer_layer_norm", "post2"),
}
ALBERT = bert.family(
    "albert",
    "Albert",
    heads=("ForMaskedLM",),
    label_classes=encoder_labels("Albert"),
    related_class="AlbertForPreTraining",
    defaults={
        **bert.DEFAULTS,
        **bert.sizes(12, 4096, 64, vocab_size=30000, embedding_size=128),
        "hidden_act": "gelu_new",
    },
    read=_read_shared,
    **bert.two_biases("predictions", _ALBERT_EMBED, _ALBERT_HEAD, _SHARED, _ALBERT_LAYER),
    choices={**bert.CHOICES, "mlp": "gelu-tanh", "share": True},
    models={"albert-base-v2": bert.sizes(12, 768, 12)},
    only={**bert.ONLY, "num_hidden_groups": (1,), "inner_group_num": (1,)},
    unused=("pooler.", "sop_classifier."),
)
