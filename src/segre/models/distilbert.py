"""DistilBERT: a BERT without token types and without a pooler."""

from __future__ import annotations

from fractions import Fraction

from segre.models import bert
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
)
from segre.transformer.spec import Transformer

EPS = Fraction(1, 10**12)  # of all norms, whatever a config says
LAYERS, HEADS = ("n_layers", "num_hidden_layers"), ("n_heads", "num_attention_heads")


def _read(config: Config) -> Values:
    d = config.count("dim", "hidden_size")
    length = config.count("max_position_embeddings")
    return {
        **config.common(d, LAYERS, HEADS),
        "head": config.width(*HEADS, of=d),
        "ff": config.count("hidden_dim"),
        "mlp": config.named("activation", UNITS),
        "eps": EPS,
        "positions": length,
        "t": length,
    }


def _write(spec: Transformer) -> Values:
    return {
        "dim": spec.d,
        "n_layers": spec.layers,
        "n_heads": spec.heads,
        "hidden_dim": spec.ff or 1,
        "max_position_embeddings": spec.positions or spec.t,
        "activation": activation(UNITS, spec.mlp),
    }


def _tensors(_spec: Transformer, part: str, _config: Config) -> Names:
    if part == "embed":
        return bert.embeddings("distilbert.")
    if part == "head":
        return {
            **linear("vocab_transform", "T"),
            **norm("vocab_layer_norm", "normT"),
            "vocab_projector.weight": Stored(("W_U",)),
            "vocab_projector.bias": Stored(("b_U",)),
        }
    at = f"distilbert.transformer.layer.{int(part) - 1}"
    return {
        **linear(f"{at}.attention.q_lin", "Q"),
        **linear(f"{at}.attention.k_lin", "K"),
        **linear(f"{at}.attention.v_lin", "V"),
        **linear(f"{at}.attention.out_lin", "O"),
        **norm(f"{at}.sa_layer_norm", "post1"),
        **linear(f"{at}.ffn.lin1", "up"),
        **linear(f"{at}.ffn.lin2", "down"),
        **norm(f"{at}.output_layer_norm", "post2"),
    }


def _preset(vocab: int) -> Values:
    return {
        "model_type": "distilbert",
        "architectures": ["DistilBertForMaskedLM"],
        "activation": "gelu",
        "dim": 768,
        "hidden_dim": 3072,
        "max_position_embeddings": 512,
        "n_heads": 12,
        "n_layers": 6,
        "vocab_size": vocab,
    }


FAMILY = Family(
    model_type="distilbert",
    base_class="DistilBertModel",
    head_classes=("DistilBertForMaskedLM",),
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
    also=(*LAYERS, *HEADS, "hidden_size"),
    read=_read,
    write=_write,
    prefix="distilbert.",
    tensors=_tensors,
    choices=bert.CHOICES,
    with_tokens={"embnorm": True},
    with_words=bert.WITH_WORDS,
    rest=fourfold,
    presets={
        "distilbert-base-uncased": _preset(30522),
        "distilbert-base-cased": _preset(28996),
        "distilbert-base-multilingual-cased": _preset(119547),
    },
    only=bert.ONLY,
    old_names=bert.OLD_NAMES,
    copies={"vocab_projector.weight": "tokens"},
    buffers=(".position_ids",),
)
