"""Gemma 2: norms before and after, gains stored minus 1, caps, windows in every other layer."""

from __future__ import annotations

from fractions import Fraction

from segre.errors import SpecError
from segre.models import llama
from segre.models.config import Config
from segre.models.family import Family, Names, Values, decoder_labels, norm
from segre.models.windows import chosen, window, written
from segre.transformer.spec import Transformer

ACTIVATION = "hidden_activation"


def _read(config: Config) -> Values:
    out = llama.decoder(config, ACTIVATION)
    out["window"] = chosen(config, out["layers"], window(config), lambda i: i % 2 == 0)
    return {**out, **scales(config, words(out))}


def words(out: Values) -> bool:
    """Whether the output is over the vocabulary."""
    return out["output"] != "hidden" and not out.get("labels")


def scales(config: Config, words: bool) -> Values:
    """The scale of the scores and the caps; the cap of logits only for the vocabulary."""
    config.count("num_key_value_heads")  # here null is not allowed
    out: Values = {}
    out["scale"] = config.number("query_pre_attn_scalar")
    if not out["scale"]:
        raise SpecError("query_pre_attn_scalar: 0 is not allowed; allowed: numbers above 0")
    out["cap"] = config.cap("attn_logit_softcapping")
    if words:
        out["logitcap"] = config.cap("final_logit_softcapping")
    return out


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


def tensors(_spec: Transformer, part: str, _config: Config) -> Names:
    """Where the tensors of a part lie."""
    if part in ("embed", "head"):
        return llama.ends(part, plus=1.0)
    at = f"model.layers.{int(part) - 1}"
    return {
        **norm(f"{at}.input_layernorm", "norm1", plus=1.0),
        **llama.attention(f"{at}.self_attn", plus=1.0),
        **norm(f"{at}.post_attention_layernorm", "post1", plus=1.0),
        **norm(f"{at}.pre_feedforward_layernorm", "norm2", plus=1.0),
        **llama.gated(f"{at}.mlp"),
        **norm(f"{at}.post_feedforward_layernorm", "post2", plus=1.0),
    }


def _preset(*sizes: int) -> Values:
    rest: Values = {
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "head_dim": 256,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh",
        "sliding_window": 4096,
        "tie_word_embeddings": True,
    }
    return llama.preset("gemma2", "Gemma2ForCausalLM", *sizes, **rest)


FAMILY = Family(
    model_type="gemma2",
    base_class="Gemma2Model",
    head_classes=("Gemma2ForCausalLM",),
    label_classes=decoder_labels("Gemma2")[:2],
    defaults={
        **llama.DEFAULTS,
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
    },
    read=_read,
    write=_write,
    prefix="model.",
    tensors=tensors,
    choices={**llama.CHOICES, "place": "sandwich", "mlp": "geglu-tanh", "cap": 50},
    with_tokens={"embscale": True},
    with_words={"tied": True, "logitcap": 30},
    presets={
        "gemma-2-2b": _preset(26, 2304, 9216, 8, 4, 256000, 8192),
        "gemma-2-9b": _preset(42, 3584, 14336, 16, 8, 256000, 8192),
    },
    only={"attention_bias": (False,), "use_bidirectional_attention": (False,)},
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
