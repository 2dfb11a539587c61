"""DistilBERT: a BERT without token types and without a pooler."""

from __future__ import annotations

from fractions import Fraction

from segre.models import bert
from segre.models.config import Config
from segre.models.family import Labelled, Values, answers
from segre.models.stored import linear, maps, norm, parts

EPS = Fraction(1, 10**12)  # of all norms, whatever a config says


def _read(config: Config) -> Values:
    return {**config.blocks(EPS), **config.learned(), "ff": config.count("hidden_dim")}


_HEAD = {
    **linear("vocab_transform", "T"),
    **norm("vocab_layer_norm", "normT"),
    **linear("vocab_projector", "U"),
}
_LAYER = {
    **maps("attention.", Q="q_lin", K="k_lin", V="v_lin", O="out_lin"),
    **norm("sa_layer_norm", "post1"),
    **maps("ffn.", up="lin1", down="lin2"),
    **norm("output_layer_norm", "post2"),
}
FAMILY = bert.family(
    "distilbert",
    "DistilBert",
    heads=("ForMaskedLM",),
    label_classes=(
        Labelled("DistilBertForTokenClassification", "classifier", "all"),
        answers("DistilBert"),
    ),
    defaults={
        "vocab_size": 30522,
        "max_position_embeddings": 512,
        "n_layers": 6,
        "n_heads": 12,
        "dim": 768,
        "hidden_dim": 3072,
        "activation": "gelu",
        "tie_word_embeddings": True,
    },
    own={
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "hidden_act": "activation",
    },
    also=("hidden_size", "num_hidden_layers", "num_attention_heads"),
    read=_read,
    tensors=parts(
        *(bert.embeddings("distilbert."), _HEAD, "distilbert.transformer.layer.{}.", _LAYER)
    ),
    with_tokens={"embnorm": True},
    models={
        "distilbert-base-uncased": {},
        "distilbert-base-cased": {"vocab_size": 28996},
        "distilbert-base-multilingual-cased": {"vocab_size": 119547},
    },
    copies={"vocab_projector.weight": "tokens"},
)
