"""Gemma: a llama with gains stored minus 1, and embeddings scaled by the root of the width."""

from __future__ import annotations

from segre.models import llama
from segre.models.activations import GATES
from segre.models.config import Config
from segre.models.family import Values
from segre.transformer.spec import Transformer

# Old configs say gelu and mean its approximation: the library reads them so.
_GATES = {name: kind for name, kind in GATES.items() if name != "gelu"} | {"gelu": "geglu-tanh"}


def _read(config: Config) -> Values:
    config.count("num_key_value_heads")  # here null is not allowed
    return llama.windowless(config, gates=_GATES)


def _write(spec: Transformer) -> Values:
    return {**llama.write_decoder(spec, gates=_GATES), "attention_bias": spec.output_bias}


FAMILY = llama.family(
    "gemma",
    "Gemma",
    labels=2,
    defaults={
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
    tensors=llama.layout(llama.normed(llama.attention(), plus=1.0), plus=1.0),
    choices={**llama.CHOICES, "mlp": "geglu-tanh"},
    with_tokens={"embscale": True},
    with_words={"tied": True},
    models={
        "gemma-2b": llama.sizes(18, 2048, 16384, 8, 1, 256000, 8192),
        "gemma-7b": llama.sizes(28, 3072, 24576, 16, 16, 256000, 8192),
    },
    only={"use_bidirectional_attention": (False,)},
)
