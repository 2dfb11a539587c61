"""MiniMax: layers of lightning attention between layers of softmax, and routed experts in all.

The stream is normed before the skip branches off: the norm before a sub-layer is, in specs, the
norm after the previous sub-layer. The factors of sub-layer outputs (beta) are part of the output
weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from segre.errors import SpecError
from segre.models import llama, mistral
from segre.models.config import Config
from segre.models.family import Values
from segre.models.stored import Names, Stored, norm, table
from segre.models.windows import FULL, layer_types, window
from segre.transformer.by_layer import every
from segre.transformer.spec import Transformer
from segre.values import quote

LINEAR = "linear_attention"
ATTENTION = {FULL: "softmax", LINEAR: "lightning"}
EPS = "0.000001"  # of the norm of what heads mix, whatever the config says of the others
_LIGHTNING: Values = {
    **{"feature": "silu", "gate": "element", "decay": "slopes"},
    **{"mixnorm": True, "mixeps": EPS},
}


def _read(config: Config) -> Values:
    out = llama.all_routed(config, llama.decoder(config))
    kinds = _kinds(config)
    out |= {"attn": [ATTENTION[kind] for kind in kinds], "skip": _skip(config, kinds)}
    _betas(config)
    if FULL in kinds:
        out["window"] = [window(config)]
    else:
        out |= {"kv": out["heads"], "pos": "none"}
        del out["base"], out["rescale"]
    if LINEAR in kinds and out["mlp"] != "swiglu":
        raise SpecError(f"hidden_act: {quote(str(config.get('hidden_act')[1]))}; allowed: silu")
    return out


def _kinds(config: Config) -> list[str]:
    """The kind of every layer; by default full attention comes first."""
    layers = config.count("num_hidden_layers")
    listed = layer_types(config, layers, tuple(ATTENTION))
    return listed or [(FULL, LINEAR)[i % 2] for i in range(layers)]


def _skip(config: Config, kinds: list[str]) -> Fraction:
    """The factor of the stream at skips: one number for all layers."""
    names = {FULL: "full_attn_alpha_factor", LINEAR: "linear_attn_alpha_factor"}
    keys = [*(key for kind, key in names.items() if kind in kinds), "mlp_alpha_factor"]
    found = {key: config.positive(key) for key in keys}
    if len({*found.values()}) > 1:
        raise SpecError(f"{', '.join(keys)} differ; allowed: one number")
    return found["mlp_alpha_factor"]


def _betas(config: Config) -> dict[str, float]:
    """The factors of sub-layer outputs: by kind of attention, and for MLPs."""
    keys = {FULL: "full_attn", LINEAR: "linear_attn", "mlp": "mlp"}
    return {kind: float(config.positive(f"{key}_beta_factor")) for kind, key in keys.items()}


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    if part == "embed":
        first = norm("model.layers.0.input_layernorm", "norm")
        return {**table("model.embed_tokens", "tokens"), **first}
    if part == "head":
        return {"lm_head.weight": Stored(("W_U",))}
    at = f"model.layers.{int(part) - 1}"
    last = int(part) == spec.layers
    linear = every(spec.attn, spec.layers)[int(part) - 1] == "lightning"
    betas = _betas(config)
    layer = {
        **(_lightning(betas[LINEAR]) if linear else _full(betas[FULL])),
        **norm("post_attention_layernorm", "post1"),
    }
    return {
        **{f"{at}.{file}": how for file, how in layer.items()},
        **norm("model.norm" if last else f"model.layers.{part}.input_layernorm", "post2"),
        **{f"{at}.{file}": how for file, how in mistral.routed(betas["mlp"]).items()},
    }


def _full(beta: float) -> Names:
    return {**llama.attention(), "self_attn.o_proj.weight": Stored(("W_O",), times=beta)}


def _lightning(beta: float) -> Names:
    """Rows of queries, keys and values of a head, then those of the next."""
    return {
        "self_attn.qkv_proj.weight": Stored(("W_Q", "W_K", "W_V"), by_head=True),
        "self_attn.output_gate.weight": Stored(("W_G",)),
        "self_attn.norm.weight": Stored(("normo.gain",)),
        "self_attn.out_proj.weight": Stored(("W_O",), times=beta),
    }


def _rest(given: Mapping[str, Any]) -> Values:
    """Experts; softmax and lightning layers in turn; the choices of both kinds."""
    out = llama.routed_rest(given, 8, 2)
    layers = given.get("layers", 1)
    if not isinstance(layers, int) or layers < 1:
        return out
    out["attn"] = ["softmax", "lightning"][:layers]
    attn = given.get("attn", out["attn"])
    listed = attn if isinstance(attn, list) else [attn]
    names = {*map(str, listed[:layers])}
    if "lightning" in names:
        out |= _LIGHTNING
    return out | ({"pos": "none"} if "softmax" not in names else {})


FAMILY = llama.family(
    "minimax",
    "MiniMax",
    defaults={
        **mistral.ROUTED,
        "layer_types": None,
        "block_size": 256,  # how the library computes, and not what
        **{
            f"{key}_{factor}_factor": 1
            for key in ("full_attn", "linear_attn", "mlp")
            for factor in ("alpha", "beta")
        },
    },
    own={"num_experts": "num_local_experts"},
    also=("num_experts",),
    read=_read,
    tensors=_tensors,
    choices={**llama.CHOICES, "place": "post"},
    with_tokens={"embnorm": True},
    rest=_rest,
    models={  # as the library's documentation describes it, with the default context
        "minimax-text-01": llama.sizes(
            *(80, 6144, 9216, 64, 8, 200064, 131072),
            head_dim=128,
            layer_types=[FULL if i % 8 == 7 else LINEAR for i in range(80)],
            num_local_experts=32,
            rope_theta=10_000_000,
        )
    },
    buffers=(
        ".rotary_emb.inv_freq",
        *(f".self_attn.{name}" for name in ("slope_rate", "query_decay")),
        *(f".self_attn.{name}" for name in ("key_decay", "diagonal_decay")),
    ),
)
