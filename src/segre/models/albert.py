"""ALBERT: a BERT whose layers share their weights, with a narrow table of tokens."""

from __future__ import annotations

from segre.models import bert
from segre.models.config import Config
from segre.models.family import Values, encoder_labels
from segre.models.stored import linear, norm
from segre.transformer.spec import Transformer


def _read(config: Config) -> Values:
    return {**bert.read(config), "embed": config.count("embedding_size")}


def write(spec: Transformer) -> Values:
    """The keys of a config that a spec gives."""
    return {**bert.write(spec), "embedding_size": spec.embed or spec.d}


_EMBED = {
    **bert.embeddings("albert."),
    **linear("albert.encoder.embedding_hidden_mapping_in", "E"),
}
_HEAD = {
    **linear("albert.pooler", "pool"),
    **linear("predictions.dense", "T"),
    **norm("predictions.LayerNorm", "normT"),
    **linear("sop_classifier.classifier", "rel"),
}
_SHARED = "albert.encoder.albert_layer_groups.0.albert_layers.0."
_LAYER = {
    **linear("attention.query", "Q"),
    **linear("attention.key", "K"),
    **linear("attention.value", "V"),
    **linear("attention.dense", "O"),
    **norm("attention.LayerNorm", "post1"),
    **linear("ffn", "up"),
    **linear("ffn_output", "down"),
    **norm("full_layer_layer_norm", "post2"),
}
FAMILY = bert.family(
    "albert",
    "Albert",
    heads=("ForMaskedLM",),
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
    write=write,
    **bert.two_biases("predictions", _EMBED, _HEAD, _SHARED, _LAYER),
    choices={**bert.CHOICES, "mlp": "gelu-tanh", "share": True},
    models={"albert-base-v2": bert.sizes(12, 768, 12)},
    only={**bert.ONLY, "num_hidden_groups": (1,), "inner_group_num": (1,)},
    unused=("pooler.", "sop_classifier."),
)
