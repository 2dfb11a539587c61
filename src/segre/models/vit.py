"""ViT: patches as inputs, a class token, learned positions, pre-LayerNorm."""

from __future__ import annotations

from typing import Any

from segre.errors import SpecError
from segre.models.activations import UNITS, activation
from segre.models.config import Config
from segre.models.family import (
    Family,
    Labelled,
    Names,
    Stored,
    Values,
    fourfold,
    linear,
    norm,
    written_sizes,
)
from segre.spec import DEEPEST
from segre.transformer.spec import Transformer
from segre.values import LARGEST, whole

CHOICES: Values = {
    **{"norm": "layer", "mlp": "gelu", "bias": "all", "pos": "learned"},
    **{"patch": 12, "cls": True},
}


def sides(config: Config, key: str) -> tuple[int, int]:
    """A size, given once for both sides or for each side."""
    name, value = config.get(key)
    both = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(both) != 2:
        raise SpecError(f"{name}: {len(both)} numbers were given; allowed: one or two")
    first, second = (whole(name, side, LARGEST) for side in both)
    return first, second


def patches(config: Config) -> Values:
    """The entries of a patch, and how many tokens an image has."""
    image, patch = sides(config, "image_size"), sides(config, "patch_size")
    count = (image[0] // patch[0]) * (image[1] // patch[1])
    if not count:
        raise SpecError("image_size is smaller than patch_size; allowed: at least patch_size")
    entries = config.count("num_channels") * patch[0] * patch[1]
    return {"patch": entries, "cls": True, "t": count + 1, "positions": count + 1}


def _read(config: Config) -> Values:
    out = blocks(config)
    d, pooled = out["d"], config.get("pooler_output_size")[1]
    if pooled not in (None, d):
        raise SpecError(f"pooler_output_size: {pooled} is not the width {d}; allowed: the width")
    return {**out, "ff": config.count("intermediate_size")}


def blocks(config: Config) -> Values:
    """The keys of a spec for models of patches, except the width of the MLP."""
    d = config.count("hidden_size")
    return {
        "kind": config.family.name,
        "d": d,
        "layers": config.count("num_hidden_layers", largest=DEEPEST),
        "heads": config.count("num_attention_heads"),
        "head": config.width("num_attention_heads", of=d),
        "mlp": config.named("hidden_act", UNITS),
        "eps": config.number("layer_norm_eps"),
        **patches(config),
        **config.ending(),
    }


def write(spec: Transformer) -> Values:
    """Every patch is one pixel with many channels: a spec does not record the sides of patches."""
    return {
        **written_sizes(spec),
        "layer_norm_eps": float(spec.eps),
        "hidden_act": activation(UNITS, spec.mlp),
        "num_channels": spec.patch,
        "patch_size": 1,
        "image_size": [1, spec.t - 1],
    }


def embeddings(spec: Transformer, config: Config, prefix: str) -> Names:
    """The map of patches, the class token and the positions."""
    at, d = f"{prefix}embeddings", spec.d
    patch = sides(config, "patch_size")
    channels = spec.patch // (patch[0] * patch[1])
    positions = Stored(("positions",), columns=True, lies=(1, spec.positions, d))
    return {
        f"{at}.patch_embeddings.projection.weight": Stored(("W_P",), lies=(d, channels, *patch)),
        f"{at}.patch_embeddings.projection.bias": Stored(("b_P",)),
        f"{at}.cls_token": Stored(("cls",), lies=(1, 1, d)),
        f"{at}.position_embeddings": positions,
    }


def attention(at: str) -> Names:
    """Queries, keys, values and outputs."""
    return {
        **linear(f"{at}.attention.query", "Q"),
        **linear(f"{at}.attention.key", "K"),
        **linear(f"{at}.attention.value", "V"),
        **linear(f"{at}.output.dense", "O"),
    }


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    if part == "embed":
        return embeddings(spec, config, "vit.")
    if part == "head":
        return {**norm("vit.layernorm", "norm"), **linear("vit.pooler.dense", "pool")}
    at = f"vit.encoder.layer.{int(part) - 1}"
    return {
        **norm(f"{at}.layernorm_before", "norm1"),
        **attention(f"{at}.attention"),
        **norm(f"{at}.layernorm_after", "norm2"),
        **linear(f"{at}.intermediate.dense", "up"),
        **linear(f"{at}.output.dense", "down"),
    }


def preset(
    model_type: str,
    architecture: str,
    patch: int,
    image: int,
    layers: int,
    width: int,
    heads: int,
    **rest: Any,
) -> Values:
    """What public configs of models of patches say."""
    return {
        "model_type": model_type,
        "architectures": [architecture],
        "hidden_act": "gelu",
        "hidden_size": width,
        "image_size": image,
        "num_attention_heads": heads,
        "num_channels": 3,
        "num_hidden_layers": layers,
        "patch_size": patch,
        "qkv_bias": True,
        **rest,
    }


def _preset(patch: int, image: int, layers: int = 12, width: int = 768, heads: int = 12) -> Values:
    own: Values = {"intermediate_size": 4 * width, "layer_norm_eps": 1e-12, "num_labels": 1000}
    sizes = (patch, image, layers, width, heads)
    return preset("vit", "ViTForImageClassification", *sizes, **own)


FAMILY = Family(
    model_type="vit",
    base_class="ViTModel",
    head_classes=(),
    label_classes=(Labelled("ViTForImageClassification", "classifier", "first"),),
    defaults={
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "image_size": 224,
        "patch_size": 16,
        "num_channels": 3,
        "pooler_output_size": None,
    },
    read=_read,
    write=write,
    prefix="vit.",
    tensors=_tensors,
    choices=CHOICES,
    rest=fourfold,
    presets={
        "vit-base-patch16-224": _preset(16, 224),
        "vit-base-patch32-384": _preset(32, 384),
        "vit-large-patch16-224": _preset(16, 224, 24, 1024, 16),
    },
    also=("encoder_stride",),
    only={"is_causal": (False,), "qkv_bias": (True,), "pooler_act": ("tanh",)},
    pooler=True,
    unused=("pooler.",),
)
