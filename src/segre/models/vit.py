"""ViT: patches as inputs, a class token, learned positions, pre-LayerNorm.

DINOv2 also has layer scale (sublayer outputs times a vector) and plain or gated MLPs. Its class
with a classifier is not read.
"""

from __future__ import annotations

from dataclasses import replace

from segre.errors import SpecError
from segre.models import llama
from segre.models.config import Config
from segre.models.family import Family, Labelled, Values, columns, fourfold
from segre.models.stored import Names, Stored, linear, maps, norm, parts
from segre.transformer.spec import Transformer
from segre.values import LARGEST, whole

_CHOICES: Values = {
    **{"norm": "layer", "mlp": "gelu", "bias": "all", "pos": "learned"},
    **{"patch": 12, "cls": True},
}


def _sides(config: Config, key: str) -> tuple[int, int]:
    """A size, given once for both sides or for each side."""
    name, value = config.get(key)
    both = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(both) != 2:
        raise SpecError(f"{name}: {len(both)} numbers were given; allowed: one or two")
    first, second = (whole(name, side, LARGEST) for side in both)
    return first, second


def _patches(config: Config) -> Values:
    """The entries of a patch, and how many tokens an image has."""
    image, patch = _sides(config, "image_size"), _sides(config, "patch_size")
    count = (image[0] // patch[0]) * (image[1] // patch[1])
    if not count:
        raise SpecError("image_size is smaller than patch_size; allowed: at least patch_size")
    entries = config.count("num_channels") * patch[0] * patch[1]
    return {"patch": entries, "cls": True, "t": count + 1, "positions": count + 1}


def _read(config: Config) -> Values:
    out = {**config.blocks(), **_patches(config)}
    d, pooled = out["d"], config.get("pooler_output_size")[1]
    if pooled not in (None, d):
        raise SpecError(f"pooler_output_size: {pooled} is not the width {d}; allowed: the width")
    return {**out, "ff": config.count("intermediate_size")}


def _embeddings(spec: Transformer, config: Config, prefix: str) -> Names:
    """The map of patches, the class token and the positions."""
    at, d = f"{prefix}embeddings", spec.d
    patch = _sides(config, "patch_size")
    channels = spec.patch // (patch[0] * patch[1])
    positions = Stored(("positions",), columns=True, lies=(1, spec.positions, d))
    return {
        f"{at}.patch_embeddings.projection.weight": Stored(("W_P",), lies=(d, channels, *patch)),
        f"{at}.patch_embeddings.projection.bias": Stored(("b_P",)),
        f"{at}.cls_token": Stored(("cls",), lies=(1, 1, d)),
        f"{at}.position_embeddings": positions,
    }


_ATTENTION: Names = {
    **maps("attention.attention.", Q="query", K="key", V="value"),
    **linear("attention.output.dense", "O"),
}
_HEAD = {**norm("vit.layernorm", "norm"), **linear("vit.pooler.dense", "pool")}
_LAYER = {
    **norm("layernorm_before", "norm1"),
    **_ATTENTION,
    **norm("layernorm_after", "norm2"),
    **maps("", up="intermediate.dense", down="output.dense"),
}


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    embed = _embeddings(spec, config, "vit.")
    return parts(embed, _HEAD, "vit.encoder.layer.{}.", _LAYER)(spec, part, config)


_sizes = columns(
    *("patch_size", "image_size", "num_hidden_layers", "hidden_size", "num_attention_heads")
)


def _labelled(patch: int, image: int, layers: int, width: int, heads: int) -> Values:
    own = {"intermediate_size": 4 * width, "num_labels": 1000}
    return _sizes(patch, image, layers, width, heads, **own)


VIT = Family(
    model_type="vit",
    base_class="ViTModel",
    head_classes=(),
    label_classes=(Labelled("ViTForImageClassification", "classifier", "first"),),
    defaults={
        **_sizes(16, 224, 12, 768, 12, intermediate_size=3072, num_channels=3),
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pooler_output_size": None,
    },
    read=_read,
    prefix="vit.",
    tensors=_tensors,
    choices=_CHOICES,
    rest=fourfold,
    models={
        "vit-base-patch16-224": _labelled(16, 224, 12, 768, 12),
        "vit-base-patch32-384": _labelled(32, 384, 12, 768, 12),
        "vit-large-patch16-224": _labelled(16, 224, 24, 1024, 16),
    },
    also=("encoder_stride",),
    only={"is_causal": (False,), "qkv_bias": (True,), "pooler_act": ("tanh",)},
    pooler=True,
    unused=("pooler.",),
)


def _read_dino(config: Config) -> Values:
    if len({*_sides(config, "image_size")}) > 1:  # the library interpolates their positions
        raise SpecError("image_size: the sides differ; allowed: equal sides")
    out = {**config.blocks(), **_patches(config)}
    out["ff"] = out["d"] * config.count("mlp_ratio")
    if config.flag("use_swiglu_ffn"):  # the library passes hidden_act over
        # about as many weights: two thirds of the units, rounded up to eights
        out |= {"mlp": "swiglu", "ff": (2 * out["ff"] // 3 + 7) // 8 * 8}
    return {**out, "masked": config.flag("use_mask_token")}


# Gated MLPs as the library holds them, and as files have them.
_FUSED = {**linear("mlp.weights_in", "gate", "up"), **linear("mlp.weights_out", "down")}
_GATED = llama.GATED | {file: replace(how, instead=True) for file, how in _FUSED.items()}


def _dino_tensors(spec: Transformer, part: str, config: Config) -> Names:
    mask = {"dinov2.embeddings.mask_token": Stored(("mask",), lies=(1, spec.d))}
    embed = {**_embeddings(spec, config, "dinov2."), **mask}
    head = norm("dinov2.layernorm", "norm")
    layer = {
        **norm("norm1", "norm1"),
        **_ATTENTION,
        "layer_scale1.lambda1": Stored(("scale1",), lies=(spec.d,)),
        **norm("norm2", "norm2"),
        **(_GATED if spec.gated else maps("mlp.", up="fc1", down="fc2")),
        "layer_scale2.lambda1": Stored(("scale2",), lies=(spec.d,)),
    }
    return parts(embed, head, "dinov2.encoder.layer.{}.", layer)(spec, part, config)


DINO = Family(
    model_type="dinov2",
    base_class="Dinov2Model",
    head_classes=(),
    defaults={
        **_sizes(14, 224, 12, 768, 12, mlp_ratio=4, num_channels=3),
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-6,
        "use_mask_token": True,
        "use_swiglu_ffn": False,
    },
    read=_read_dino,
    prefix="dinov2.",
    tensors=_dino_tensors,
    choices={**_CHOICES, "layerscale": True, "masked": True},
    rest=fourfold,
    models={
        "dinov2-small": _sizes(14, 518, 12, 384, 6),
        "dinov2-base": _sizes(14, 518, 12, 768, 12),
        "dinov2-large": _sizes(14, 518, 24, 1024, 16),
    },
    also=(
        *("layerscale_value", "drop_path_rate", "apply_layernorm", "reshape_hidden_states"),
        *("out_features", "out_indices", "stage_names"),  # of its use as a backbone
    ),
    only={"is_causal": (False,), "qkv_bias": (True,)},
)
