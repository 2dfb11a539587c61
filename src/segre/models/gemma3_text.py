"""Gemma 3 (text model): a Gemma 2 with normed queries and keys, and rotary bases by kind of layer.

Layers with a window have their own rotary base; only the others may be rescaled.
"""

from __future__ import annotations

from segre.models import gemma2, llama
from segre.models.config import Config
from segre.models.family import Family, Values, decoder_labels
from segre.models.kinds import rotations, written_rotations
from segre.models.windows import FULL, SLIDING, chosen, window, written
from segre.transformer.spec import Transformer

THETAS = {FULL: ("rope_theta", 1_000_000), SLIDING: ("rope_local_base_freq", 10_000)}


def _read(config: Config) -> Values:
    out = llama.decoder(config, gemma2.ACTIVATION, turns=_context)
    layers, every = out["layers"], config.count("sliding_window_pattern")
    out["window"] = chosen(config, layers, window(config), lambda i: (i + 1) % every > 0)
    out |= rotations(config, out["window"], out["t"], THETAS, rescaled=(FULL,))
    out |= gemma2.scales(config, gemma2.words(out))
    return {**out, **llama.attention_biases(config), "cap": 0}  # the library passes a cap over


def _context(config: Config) -> Values:
    return {"t": config.count("max_position_embeddings")}


def _write(spec: Transformer) -> Values:
    out = {**llama.write_decoder(spec, gemma2.ACTIVATION), **written(spec)}
    rope = written_rotations(spec, out["layer_types"], THETAS)
    bias = {"attention_bias": spec.output_bias}
    return {**out, "rope_parameters": rope, **gemma2.written_scales(spec), **bias}


def _preset(*sizes: int, window: int) -> Values:
    rest: Values = {
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 256,
        "rope_local_base_freq": 10000.0,
        "rope_theta": 1000000.0,
        "sliding_window": window,
        "sliding_window_pattern": 6,
        "tie_word_embeddings": True,
    }
    return llama.preset("gemma3_text", "Gemma3ForCausalLM", *sizes, **rest)


FAMILY = Family(
    model_type="gemma3_text",
    base_class="Gemma3TextModel",
    head_classes=("Gemma3ForCausalLM",),
    label_classes=decoder_labels("Gemma3Text")[:1],
    defaults={
        **gemma2.FAMILY.defaults,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "final_logit_softcapping": None,
        "attn_logit_softcapping": None,
        "sliding_window_pattern": 6,
        "attention_bias": False,
    },
    also=("rope_local_base_freq",),
    read=_read,
    write=_write,
    prefix="model.",
    tensors=gemma2.tensors,
    choices={**gemma2.FAMILY.choices, "cap": 0, "qknorm": True},
    with_tokens={"embscale": True},
    with_words={"tied": True},
    presets={
        "gemma-3-270m": _preset(18, 640, 2048, 4, 1, 262144, 32768, window=512),
        "gemma-3-1b": _preset(26, 1152, 6912, 4, 1, 262144, 32768, window=512),
    },
    only={"use_bidirectional_attention": (False,)},
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
