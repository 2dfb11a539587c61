"""DINOv2: a ViT with layer scale (sublayer outputs times a vector), plain or gated MLPs.

The class with its classifier is not read.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

from segre.errors import SpecError
from segre.models import llama, vit
from segre.models.config import Config
from segre.models.family import Family, Values, fourfold
from segre.models.stored import Names, Stored, linear, norm, parts
from segre.transformer.spec import Transformer


def _read(config: Config) -> Values:
    if len({*vit.sides(config, "image_size")}) > 1:  # the library interpolates their positions
        raise SpecError("image_size: the sides differ; allowed: equal sides")
    out = vit.blocks(config)
    out["ff"] = out["d"] * config.count("mlp_ratio")
    if config.flag("use_swiglu_ffn"):  # the library passes hidden_act over
        out |= {"mlp": "swiglu", "ff": _gated(out["ff"])}
    return {**out, "masked": config.flag("use_mask_token")}


def _gated(ff: int) -> int:
    """Units of a gated MLP with about as many weights: two thirds, rounded up to eights."""
    return (2 * ff // 3 + 7) // 8 * 8


def _write(spec: Transformer) -> Values:
    side = isqrt(spec.t - 1)
    if side**2 != spec.t - 1:
        raise SpecError(f"t: {spec.t} is not a class token and a square of patches")
    gated = spec.mlp == "swiglu"
    if not gated and spec.ff % spec.d:
        raise SpecError(f"ff: {spec.ff} is not a multiple of d={spec.d}; allowed: multiples")
    ratio = spec.ff // spec.d
    if gated:  # the largest that is not too large; `to_config` reads it back
        ratio = max(1, (3 * spec.ff + 2) // (2 * spec.d))
    out = vit.write(replace(spec, mlp="gelu") if gated else spec)
    del out["intermediate_size"]
    return {
        **out,
        "mlp_ratio": ratio,
        "use_swiglu_ffn": gated,
        "use_mask_token": spec.masked,
        "image_size": side,
    }


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    mask = {"dinov2.embeddings.mask_token": Stored(("mask",), lies=(1, spec.d))}
    embed = {**vit.embeddings(spec, config, "dinov2."), **mask}
    head = norm("dinov2.layernorm", "norm")
    layer = {
        **norm("norm1", "norm1"),
        **vit.ATTENTION,
        "layer_scale1.lambda1": Stored(("scale1",), lies=(spec.d,)),
        **norm("norm2", "norm2"),
        **(llama.GATED if spec.gated else {**linear("mlp.fc1", "up"), **linear("mlp.fc2", "down")}),
        "layer_scale2.lambda1": Stored(("scale2",), lies=(spec.d,)),
    }
    return parts(embed, head, "dinov2.encoder.layer.{}.", layer)(spec, part, config)


def _fused(spec: Transformer, part: str, _config: Config) -> Names:
    """Gated MLPs as files have them."""
    if part in ("embed", "head") or not spec.gated:
        return {}
    at = f"dinov2.encoder.layer.{int(part) - 1}.mlp"
    return {**linear(f"{at}.weights_in", "gate", "up"), **linear(f"{at}.weights_out", "down")}


FAMILY = Family(
    model_type="dinov2",
    base_class="Dinov2Model",
    head_classes=(),
    defaults={
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "mlp_ratio": 4,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-6,
        "image_size": 224,
        "patch_size": 14,
        "num_channels": 3,
        "use_mask_token": True,
        "use_swiglu_ffn": False,
    },
    read=_read,
    write=_write,
    prefix="dinov2.",
    tensors=_tensors,
    stacked=_fused,
    choices={**vit.CHOICES, "layerscale": True, "masked": True},
    rest=fourfold,
    models={
        "dinov2-small": vit.sizes(14, 518, 12, 384, 6),
        "dinov2-base": vit.sizes(14, 518, 12, 768, 12),
        "dinov2-large": vit.sizes(14, 518, 24, 1024, 16),
    },
    also=(
        *("layerscale_value", "drop_path_rate", "apply_layernorm", "reshape_hidden_states"),
        *("out_features", "out_indices", "stage_names"),  # of its use as a backbone
    ),
    only={"is_causal": (False,), "qkv_bias": (True,)},
)
