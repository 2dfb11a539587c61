"""ViT: patches as inputs, a class token, learned positions, pre-LayerNorm."""

from __future__ import annotations

from segre.errors import SpecError
from segre.models.activations import UNITS, activation
from segre.models.config import Config
from segre.models.family import Family, Labelled, Values, fourfold, written_sizes
from segre.models.stored import Names, Stored, linear, norm, parts
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


ATTENTION: Names = {
    **linear("attention.attention.query", "Q"),
    **linear("attention.attention.key", "K"),
    **linear("attention.attention.value", "V"),
    **linear("attention.output.dense", "O"),
}
_HEAD = {**norm("vit.layernorm", "norm"), **linear("vit.pooler.dense", "pool")}
_LAYER = {
    **norm("layernorm_before", "norm1"),
    **ATTENTION,
    **norm("layernorm_after", "norm2"),
    **linear("intermediate.dense", "up"),
    **linear("output.dense", "down"),
}


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    embed = embeddings(spec, config, "vit.")
    return parts(embed, _HEAD, "vit.encoder.layer.{}.", _LAYER)(spec, part, config)


def sizes(patch: int, image: int, layers: int, width: int, heads: int, **rest: int) -> Values:
    """What configs of public models of patches say beside the defaults of their family."""
    out = {"patch_size": patch, "image_size": image, "num_hidden_layers": layers}
    return {**out, "hidden_size": width, "num_attention_heads": heads, **rest}


def _labelled(patch: int, image: int, layers: int, width: int, heads: int) -> Values:
    own = {"intermediate_size": 4 * width, "num_labels": 1000}
    return sizes(patch, image, layers, width, heads, **own)


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
