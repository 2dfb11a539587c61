"""gpt-oss: experts with biases and a clamped gate, sinks, and windows in every other layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segre.models import llama
from segre.models.config import Config
from segre.models.family import Values
from segre.models.rope import rope_base, rope_rescale
from segre.models.stored import Stored
from segre.models.windows import chosen, window

BASE = 150_000
# What the library has where a config says nothing of rotations.
ROPE: Values = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


def _rotary(config: Config) -> Values:
    given, length = config.given, config.count("max_position_embeddings")
    if not given.get("rope_scaling") and given.get("rope_parameters") is None:
        given = {**given, "rope_parameters": ROPE}
    return {"base": rope_base(given, BASE), "rescale": rope_rescale(given, length), "t": length}


def _read(config: Config) -> Values:
    out = llama.decoder(config, rotations=_rotary)
    return {
        **llama.all_routed(config, out),
        "window": chosen(config, out["layers"], window(config), lambda i: i % 2 == 0),
        "mlp": "clamped",  # the library passes hidden_act over
        "limit": config.cap("swiglu_limit"),
    }


def _rest(given: Mapping[str, Any]) -> Values:
    """Experts with biases and clamped units, unless the spec has another MLP."""
    if given.get("mlp", "clamped") != "clamped":
        return {}
    found = llama.routed_rest(given, 4, 2)
    return {"mlp": "clamped", "limit": 7, "expbias": bool(found), **found}


_BOTH = Stored(("W_gate", "W_up"), columns=True, stacked=True, alternate=True)
_EXPERTS = {
    "mlp.router.weight": Stored(("W_R",)),
    "mlp.router.bias": Stored(("c_R",)),
    "mlp.experts.gate_up_proj": _BOTH,
    "mlp.experts.gate_up_proj_bias": Stored(("c_gate", "c_up"), stacked=True, alternate=True),
    "mlp.experts.down_proj": Stored(("W_down",), columns=True, stacked=True),
    "mlp.experts.down_proj_bias": Stored(("c_down",), stacked=True),
}
_SINKS = {"self_attn.sinks": Stored(("sinks",))}
FAMILY = llama.family(
    "gpt_oss",
    "GptOss",
    labels=2,
    defaults={
        **llama.sizes(36, 2880, 2880, 64, 8, 201088, 131072),
        "head_dim": 64,
        "rms_norm_eps": 1e-5,
        "attention_bias": True,
        "sliding_window": 128,
        "layer_types": None,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "swiglu_limit": 7.0,
    },
    own={"num_experts": "num_local_experts"},
    also=("num_experts",),
    only={"swiglu_alpha": (1.702,)},
    read=_read,
    tensors=llama.layout(llama.normed({**llama.attention(), **_SINKS}, _EXPERTS)),
    choices={**llama.CHOICES, "bias": "attn", "sinks": True},
    rest=_rest,
    models={"gpt-oss-20b": {"num_hidden_layers": 24, "num_local_experts": 32}, "gpt-oss-120b": {}},
)
