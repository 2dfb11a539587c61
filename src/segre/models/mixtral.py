"""Mixtral: a mistral with routed experts in all layers, and a softmax over the chosen experts."""

from __future__ import annotations

from functools import partial

from segre.models import experts, llama, mistral
from segre.models.config import Config
from segre.models.family import Values
from segre.models.stored import Names, Stored
from segre.transformer.spec import Transformer

TENSORS = llama.layout(llama.normed(llama.attention(), {}))  # except those of experts


def _read(config: Config) -> Values:
    return experts.all_routed(config, mistral.read(config))


def _write(spec: Transformer) -> Values:
    return {**mistral.write(spec), **experts.written_routed(spec)}


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    return {**TENSORS(spec, part, config), **routed(spec, part)}


def routed(spec: Transformer, part: str, times: float = 1.0) -> Names:
    """The router and the experts of a layer, one by one."""
    if part in ("embed", "head"):
        return {}
    at = f"model.layers.{int(part) - 1}.block_sparse_moe"
    every = experts.one_by_one(spec, f"{at}.experts", ("w1", "w3", "w2"), times)
    return {f"{at}.gate.weight": Stored(("W_R",)), **every}


def stacked(
    _spec: Transformer, part: str, _config: Config | None = None, times: float = 1.0
) -> Names:
    """The router, and all experts of a layer together."""
    if part in ("embed", "head"):
        return {}
    at = f"model.layers.{int(part) - 1}.mlp"
    return {f"{at}.gate.weight": Stored(("W_R",)), **experts.stacked(f"{at}.experts", times)}


FAMILY = llama.family(
    "mixtral",
    "Mixtral",
    defaults={
        **mistral.DEFAULTS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1000000,
        "sliding_window": None,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
    also=("num_experts",),
    read=_read,
    write=_write,
    tensors=_tensors,
    stacked=stacked,
    rest=partial(experts.rest, experts=8, active=2),
    models={
        "mixtral-8x7b": llama.sizes(32, 4096, 14336, 32, 8, 32000, 32768),
        "mixtral-8x22b": llama.sizes(56, 6144, 16384, 48, 8, 32000, 65536),
    },
)
