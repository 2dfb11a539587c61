"""Modules of torch.nn as architectures: MultiheadAttention, TransformerEncoderLayer and a stack.

A module is read as a config whose keys are the module's arguments. Its inputs are matrices, its
outputs all hidden states. Attention is self-attention; masks and dropout are ignored. These are
families like those of the transformers library, but inline specs and files cannot name them.
"""

from __future__ import annotations

import sys
from typing import Any

from segre.errors import SpecError
from segre.models.config import Config
from segre.models.family import Family, Values
from segre.models.stored import Names, Stored, linear, maps, norm, parts
from segre.values import quote

ATTENTION, LAYER, ENCODER = "MultiheadAttention", "TransformerEncoderLayer", "TransformerEncoder"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu"}


# --- configs of modules ---------------------------------------------------------------------------


def module_config(source: Any) -> Values | None:
    """The keys of a module of torch.nn, if it is one of these; torch is not imported."""
    torch = sys.modules.get("torch")
    nn = getattr(torch, "nn", None)
    if nn is None or not isinstance(source, getattr(nn, "Module", ())):
        return None
    for name, read in ((ATTENTION, _attention), (LAYER, _layer), (ENCODER, _encoder)):
        if isinstance(source, getattr(nn, name)):
            return {"model_type": f"torch.nn.{name}", **read(source)}
    return None


def _attention(module: Any) -> Values:
    widths = {"kdim": module.kdim, "vdim": module.vdim}
    other = [key for key, width in widths.items() if width != module.embed_dim]
    other += ["add_bias_kv"] if module.bias_k is not None else []
    other += ["add_zero_attn"] if module.add_zero_attn else []
    if other:
        raise SpecError(f"{ATTENTION}: {', '.join(other)} cannot be expressed in a spec")
    return {
        "embed_dim": module.embed_dim,
        "num_heads": module.num_heads,
        "bias": module.in_proj_bias is not None,
    }


def _layer(module: Any) -> Values:
    inside = _attention(module.self_attn)
    return {
        "d_model": inside["embed_dim"],
        "nhead": inside["num_heads"],
        "dim_feedforward": module.linear1.out_features,
        "activation": _activation(module.activation),
        "layer_norm_eps": module.norm1.eps,
        "norm_first": bool(module.norm_first),
        "bias": inside["bias"],
    }


def _encoder(module: Any) -> Values:
    every = [_layer(layer) for layer in module.layers]
    if any(layer != every[0] for layer in every):
        raise SpecError(f"{ENCODER}: its layers differ, which a spec cannot express")
    norm = module.norm
    if norm is not None and (norm.eps != every[0]["layer_norm_eps"] or not every[0]["norm_first"]):
        raise SpecError(
            f"{ENCODER}: a last norm with another eps, or after norms of its own layers "
            "(norm_first=False), cannot be expressed in a spec"
        )
    return {**every[0], "num_layers": len(every), "norm": norm is not None}


def _activation(found: Any) -> str:
    name = str(getattr(found, "__name__", type(found).__name__)).lower()
    if name not in ACTIVATIONS or getattr(found, "approximate", "none") != "none":
        raise SpecError(
            f"{LAYER}: activation {quote(name)} cannot be expressed in a spec; allowed: "
            f"{', '.join(ACTIVATIONS)}"
        )
    return name


# --- families -------------------------------------------------------------------------------------


def _read(config: Config) -> Values:
    kind, bias = config.family.base_class, "all" if config.flag("bias") else "none"
    if kind == ATTENTION:
        sizes = {"d": config.count("embed_dim"), "heads": config.count("num_heads")}
        return {**sizes, "bias": bias, "residual": False}
    out = {
        "d": config.count("d_model"),
        "heads": config.count("nhead"),
        "ff": config.count("dim_feedforward"),
        "mlp": config.named("activation", ACTIVATIONS),
        "norm": "layer",
        "place": "pre" if config.flag("norm_first") else "post",
        "eps": config.number("layer_norm_eps"),
        "bias": bias,
    }
    if kind == ENCODER:
        last = {"final": True} if config.flag("norm") else {}
        out |= {"layers": config.count("num_layers"), **last}
    return out


_HEADS: Names = {
    "in_proj_weight": Stored(("W_Q", "W_K", "W_V")),
    "in_proj_bias": Stored(("b_Q", "b_K", "b_V")),
    **linear("out_proj", "O"),
}
_BOTH: Names = {
    **{f"self_attn.{file}": how for file, how in _HEADS.items()},
    **maps("", up="linear1", down="linear2"),
    **norm("norm1", "norm1", "post1"),
    **norm("norm2", "norm2", "post2"),
}
_SIZES: Values = {"activation": "relu", "layer_norm_eps": 1e-5, "norm_first": False, "bias": True}
_KINDS: dict[str, tuple[str, Names, Values]] = {  # where a layer lies, its tensors, defaults
    ATTENTION: ("", _HEADS, {"bias": True}),
    LAYER: ("", _BOTH, _SIZES),
    ENCODER: ("layers.{}.", _BOTH, {**_SIZES, "norm": False}),
}
MODULES = {
    f"torch.nn.{name}": Family(
        model_type=f"torch.nn.{name}",
        base_class=name,
        head_classes=(),
        defaults=defaults,
        read=_read,
        prefix="",
        tensors=parts({}, norm("norm", "norm"), at, layer),
        choices={"pos": "none"},
    )
    for name, (at, layer, defaults) in _KINDS.items()
}
