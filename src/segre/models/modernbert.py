"""ModernBERT: pre-LayerNorm, but no norm before the first attention; two-sided windows.

A layer sees all tokens or only nearby ones, and the two kinds have different rotary bases.
"""

from __future__ import annotations

from segre.errors import SpecError
from segre.models.config import GATES, Config
from segre.models.family import Family, Labelled, Values, answers
from segre.models.stored import linear, norm, parts, table
from segre.models.windows import FULL, SLIDING, chosen, rotations

THETAS = {FULL: ("global_rope_theta", 160_000), SLIDING: ("local_rope_theta", 10_000)}


def _read(config: Config) -> Values:
    common, length = config.common(), config.count("max_position_embeddings")
    reach = config.count("local_attention", smallest=2) // 2
    every = config.count("global_attn_every_n_layers")
    sizes = chosen(config, common["layers"], reach + 1, lambda i: i % every > 0)
    words = common["output"] != "hidden"
    if common.get("read") == "first" and config.get("classifier_pooling")[1] == "mean":
        raise SpecError(
            "classifier_pooling: the mean of all tokens cannot be expressed in a spec; allowed: cls"
        )
    if words and config.get("classifier_activation")[1] != config.get("hidden_activation")[1]:
        raise SpecError(
            "classifier_activation: in a spec the head has the activation of the layers; allowed: "
            "the value of hidden_activation, or the class ModernBertModel, which has no head"
        )
    return {
        **common,
        **rotations(config, sizes, length, THETAS, rescaled=(FULL, SLIDING)),
        **({"outbias": config.flag("decoder_bias")} if words and "labels" not in common else {}),
        "head": config.even("hidden_size", config.width(common["d"])),
        "ff": config.count("intermediate_size"),
        "mlp": config.named("hidden_activation", GATES),
        "eps": config.number("norm_eps"),
        "window": sizes,
        "t": length,
    }


_EMBED = {
    **table("model.embeddings.tok_embeddings", "tokens"),
    **norm("model.embeddings.norm", "norm"),
}
_HEAD = {
    **norm("model.final_norm", "norm"),
    **linear("head.dense", "T"),
    **norm("head.norm", "normT"),
    **linear("decoder", "U"),
}
_LAYER = {
    **norm("attn_norm", "norm1"),
    **linear("attn.Wqkv", "Q", "K", "V"),
    **linear("attn.Wo", "O"),
    **norm("mlp_norm", "norm2"),
    **linear("mlp.Wi", "gate", "up"),
    **linear("mlp.Wo", "down"),
}
_LARGE: Values = {"num_hidden_layers": 28, "hidden_size": 1024, "intermediate_size": 2624}
FAMILY = Family(
    model_type="modernbert",
    base_class="ModernBertModel",
    head_classes=("ModernBertForMaskedLM",),
    label_classes=(
        Labelled("ModernBertForSequenceClassification", "classifier", "first", transform=True),
        Labelled("ModernBertForTokenClassification", "classifier", "all", transform=True),
        answers("ModernBert", "classifier", transform=True),
    ),
    defaults={
        "vocab_size": 50368,
        "hidden_size": 768,
        "intermediate_size": 1152,
        "num_hidden_layers": 22,
        "num_attention_heads": 12,
        "hidden_activation": "gelu",
        "classifier_activation": "gelu",
        "max_position_embeddings": 8192,
        "norm_eps": 1e-5,
        "local_attention": 128,
        "global_attn_every_n_layers": 3,
        "decoder_bias": True,
        "tie_word_embeddings": True,
    },
    also=("global_rope_theta", "local_rope_theta", "classifier_pooling"),
    read=_read,
    prefix="model.",
    tensors=parts(_EMBED, _HEAD, "model.layers.{}.", _LAYER),
    choices={"norm": "layer", "mlp": "geglu", "pos": "rope"},
    with_tokens={"embnorm": True, "firstnorm": False},
    with_words={"tied": True, "transform": True, "outbias": True},
    models={"modernbert-base": {}, "modernbert-large": {**_LARGE, "num_attention_heads": 16}},
    only={
        "is_causal": (False,),
        "is_decoder": (False,),
        **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), (False,)),
    },
    copies={"decoder.weight": "tokens"},
    unused=("head.", "decoder."),
)
