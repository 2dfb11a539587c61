"""Gemma 3 (text model): a Gemma 2 with normed queries and keys, and rotary bases by kind of layer.

Layers with a window have their own rotary base; only the others may be rescaled.
"""

from __future__ import annotations

from segre.models import gemma2, llama
from segre.models.config import Config
from segre.models.family import Values
from segre.models.kinds import rotations, written_rotations
from segre.models.windows import FULL, SLIDING, chosen, window, written
from segre.transformer.spec import Transformer

THETAS = {FULL: ("rope_theta", 1_000_000), SLIDING: ("rope_local_base_freq", 10_000)}


def _read(config: Config) -> Values:
    out = llama.decoder(config, gemma2.ACTIVATION, rotations=_context)
    layers, every = out["layers"], config.count("sliding_window_pattern")
    out["window"] = chosen(config, layers, window(config), lambda i: (i + 1) % every > 0)
    out |= rotations(config, out["window"], out["t"], THETAS, rescaled=(FULL,))
    out |= gemma2.scales(config, gemma2.words(out))
    return {**out, "cap": 0}  # the library passes a cap over


def _context(config: Config) -> Values:
    return {"t": config.count("max_position_embeddings")}


def _write(spec: Transformer) -> Values:
    out = {**llama.write_decoder(spec, gemma2.ACTIVATION), **written(spec)}
    rope = written_rotations(spec, out["layer_types"], THETAS)
    bias = {"attention_bias": spec.output_bias}
    return {**out, "rope_parameters": rope, **gemma2.written_scales(spec), **bias}


_GEMMA_3: Values = {"sliding_window": 512, "rope_theta": 1000000.0}
FAMILY = llama.family(
    "gemma3_text",
    "Gemma3Text",
    head_classes=("Gemma3ForCausalLM",),
    labels=1,
    defaults={
        **gemma2.DEFAULTS,
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
    tensors=gemma2.TENSORS,
    choices={**gemma2.CHOICES, "cap": 0, "qknorm": True},
    with_tokens={"embscale": True},
    with_words={"tied": True},
    models={
        "gemma-3-270m": llama.sizes(18, 640, 2048, 4, 1, 262144, 32768, **_GEMMA_3),
        "gemma-3-1b": llama.sizes(26, 1152, 6912, 4, 1, 262144, 32768, **_GEMMA_3),
    },
    only={"use_bidirectional_attention": (False,)},
)
