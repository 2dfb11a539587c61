"""Phi-3: a llama with joined tensors, one window in all layers, and heads that turn in part."""

from __future__ import annotations

from functools import partial
from typing import Any

from segre.errors import SpecError
from segre.models import llama
from segre.models.config import Config
from segre.models.family import Family, Names, Values, linear, norm
from segre.models.rope import rope_part
from segre.models.windows import listed, window
from segre.transformer.spec import Transformer


def _read(config: Config) -> Values:
    part = rope_part(config.given)
    out = llama.decoder(config, turns=partial(llama.rotary, part=part))
    listed(config, out["layers"])  # the library passes the list over
    if out["rescale"]:  # the library takes yarn for longrope, and nothing else
        raise SpecError(f"rope_type: rescale={out['rescale']} is not one of phi3; allowed: default")
    turned = int(out["head"] * part)
    if turned < 2 or turned % 2:
        raise SpecError(
            f"partial_rotary_factor: {part} of {out['head']} dimensions is {turned}; "
            "allowed: even numbers from 2"
        )
    return {**out, "rotary": turned, "window": [window(config)]}


def _write(spec: Transformer) -> Values:
    out = llama.write_decoder(spec)
    part = {"partial_rotary_factor": spec.rotary / spec.head} if spec.rotary else {}
    out["rope_parameters"] |= part
    return {
        **out,
        "original_max_position_embeddings": spec.t,
        "sliding_window": max(spec.window, default=0) or None,
    }


def _tensors(_spec: Transformer, part: str, _config: Config) -> Names:
    if part in ("embed", "head"):
        return llama.ends(part)
    at = f"model.layers.{int(part) - 1}"
    return {
        **norm(f"{at}.input_layernorm", "norm1"),
        **linear(f"{at}.self_attn.qkv_proj", "Q", "K", "V"),
        **linear(f"{at}.self_attn.o_proj", "O"),
        **norm(f"{at}.post_attention_layernorm", "norm2"),
        **linear(f"{at}.mlp.gate_up_proj", "gate", "up"),
        **linear(f"{at}.mlp.down_proj", "down"),
    }


def _preset(*sizes: int, **rest: Any) -> Values:
    return llama.preset("phi3", "Phi3ForCausalLM", *sizes, **{"rms_norm_eps": 1e-5, **rest})


FAMILY = Family(
    model_type="phi3",
    base_class="Phi3Model",
    head_classes=("Phi3ForCausalLM",),
    defaults={
        **llama.DEFAULTS,
        "vocab_size": 32064,
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_key_value_heads": None,
        "max_position_embeddings": 4096,
        "original_max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "sliding_window": None,
    },
    read=_read,
    write=_write,
    prefix="model.",
    tensors=_tensors,
    choices=llama.CHOICES,
    presets={
        "phi-3-mini-4k": _preset(32, 3072, 8192, 32, 32, 32064, 4096, sliding_window=2047),
        "phi-4": _preset(
            *(40, 5120, 17920, 40, 10, 100352, 16384),
            original_max_position_embeddings=16384,
            rope_theta=250000.0,
        ),
    },
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
