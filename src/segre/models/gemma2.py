"""Gemma 2: norms before and after, gains stored minus 1, caps, windows in every other layer."""

from __future__ import annotations

from fractions import Fraction

from segre.models import llama
from segre.models.config import Config
from segre.models.family import Values
from segre.models.stored import norm
from segre.models.windows import chosen, window, written
from segre.transformer.spec import Transformer

ACTIVATION = "hidden_activation"


def _read(config: Config) -> Values:
    out = llama.decoder(config, ACTIVATION)
    out["window"] = chosen(config, out["layers"], window(config), lambda i: i % 2 == 0)
    return {**out, **scales(config, words(out))}


def words(out: Values) -> bool:
    """Whether the output is a distribution over the vocabulary."""
    return out["output"] != "hidden" and not out.get("labels")


def scales(config: Config, words: bool) -> Values:
    """The scale of the scores and the caps; the cap of logits only for the vocabulary."""
    config.count("num_key_value_heads")  # here null is not allowed
    out: Values = {"scale": config.positive("query_pre_attn_scalar")}
    out["cap"] = config.cap("attn_logit_softcapping")
    return {**out, "logitcap": config.cap("final_logit_softcapping")} if words else out


def _write(spec: Transformer) -> Values:
    return {**llama.write_decoder(spec, ACTIVATION), **written(spec), **written_scales(spec)}


def written_scales(spec: Transformer) -> Values:
    """The inverse of `scales`."""
    return {
        "query_pre_attn_scalar": _number(spec.scale or Fraction(spec.head)),
        "attn_logit_softcapping": float(spec.cap) or None,
        "final_logit_softcapping": float(spec.logitcap) or None,
    }


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


TENSORS = llama.layout(
    {
        **norm("input_layernorm", "norm1", plus=1.0),
        **llama.attention(plus=1.0),
        **norm("post_attention_layernorm", "post1", plus=1.0),
        **norm("pre_feedforward_layernorm", "norm2", plus=1.0),
        **llama.GATED,
        **norm("post_feedforward_layernorm", "post2", plus=1.0),
    },
    plus=1.0,
)
DEFAULTS: Values = {
    "vocab_size": 256000,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    ACTIVATION: "gelu_pytorch_tanh",
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "final_logit_softcapping": 30.0,
    "attn_logit_softcapping": 50.0,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "layer_types": None,
}
CHOICES: Values = {**llama.CHOICES, "place": "sandwich", "mlp": "geglu-tanh"}
FAMILY = llama.family(
    "gemma2",
    "Gemma2",
    labels=2,
    defaults=DEFAULTS,
    read=_read,
    write=_write,
    tensors=TENSORS,
    choices={**CHOICES, "cap": 50},
    with_tokens={"embscale": True},
    with_words={"tied": True, "logitcap": 30},
    models={
        "gemma-2-2b": llama.sizes(26, 2304, 9216, 8, 4, 256000, 8192),
        "gemma-2-9b": llama.sizes(42, 3584, 14336, 16, 8, 256000, 8192),
    },
    only={"attention_bias": (False,), "use_bidirectional_attention": (False,)},
)
