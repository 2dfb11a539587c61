"""Gemma: a llama with gains stored minus 1, and embeddings scaled by the root of the width."""

from __future__ import annotations

from segre.models import llama
from segre.models.activations import GATES
from segre.models.config import Config
from segre.models.family import Family, Names, Values, decoder_labels
from segre.models.windows import listed
from segre.transformer.spec import Transformer

# Old configs say gelu and mean its approximation: the library reads them so.
_GATES = {name: kind for name, kind in GATES.items() if name != "gelu"} | {"gelu": "geglu-tanh"}


def _read(config: Config) -> Values:
    config.count("num_key_value_heads")  # here null is not allowed
    out = llama.decoder(config, gates=_GATES)
    listed(config, out["layers"])  # the library passes the list over
    return {**out, **llama.attention_biases(config)}


def _write(spec: Transformer) -> Values:
    return {**llama.write_decoder(spec, gates=_GATES), "attention_bias": spec.output_bias}


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    return llama.tensors(spec, part, config, plus=1.0)


def _preset(*sizes: int) -> Values:
    rest: Values = {
        "head_dim": 256,
        "hidden_act": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
    }
    return llama.preset("gemma", "GemmaForCausalLM", *sizes, **rest)


FAMILY = Family(
    model_type="gemma",
    base_class="GemmaModel",
    head_classes=("GemmaForCausalLM",),
    label_classes=decoder_labels("Gemma")[:2],
    defaults={
        **llama.DEFAULTS,
        "vocab_size": 256000,
        "hidden_size": 3072,
        "intermediate_size": 24576,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "hidden_act": "gelu_pytorch_tanh",
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
        "attention_bias": False,
    },
    also=("hidden_activation",),  # older versions read it
    read=_read,
    write=_write,
    prefix="model.",
    tensors=_tensors,
    choices={**llama.CHOICES, "mlp": "geglu-tanh"},
    with_tokens={"embscale": True},
    with_words={"tied": True},
    presets={
        "gemma-2b": _preset(18, 2048, 16384, 8, 1, 256000, 8192),
        "gemma-7b": _preset(28, 3072, 24576, 16, 16, 256000, 8192),
    },
    only={"use_bidirectional_attention": (False,)},
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
