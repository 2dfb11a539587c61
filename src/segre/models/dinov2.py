"""DINOv2: a ViT that multiplies what its sublayers write by a vector; without its classifier."""

from __future__ import annotations

from math import isqrt

from segre.errors import SpecError
from segre.models import vit
from segre.models.activations import UNITS, activation
from segre.models.config import Config
from segre.models.family import Family, Names, Stored, Values, fourfold, linear, norm
from segre.spec import DEEPEST
from segre.transformer.spec import Transformer


def _read(config: Config) -> Values:
    d = config.count("hidden_size")
    if len({*vit.sides(config, "image_size")}) > 1:  # the library interpolates their positions
        raise SpecError("image_size: the sides differ; allowed: squares")
    return {
        "kind": config.family.name,
        "d": d,
        "layers": config.count("num_hidden_layers", largest=DEEPEST),
        "heads": config.count("num_attention_heads"),
        "head": config.width("num_attention_heads", of=d),
        "ff": d * config.count("mlp_ratio"),
        "mlp": config.named("hidden_act", UNITS),
        "eps": config.number("layer_norm_eps"),
        "masked": config.flag("use_mask_token"),
        **vit.patches(config),
        **config.ending(),
    }


def _write(spec: Transformer) -> Values:
    side = isqrt(spec.t - 1)
    if side**2 != spec.t - 1:
        raise SpecError(f"t: {spec.t} is not a class token and a square of patches")
    if spec.ff % spec.d:
        raise SpecError(f"ff: {spec.ff} is no multiple of d={spec.d}; allowed: multiples")
    return {
        "hidden_size": spec.d,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": spec.heads,
        "mlp_ratio": spec.ff // spec.d,
        "layer_norm_eps": float(spec.eps),
        "hidden_act": activation(UNITS, spec.mlp),
        "use_mask_token": spec.masked,
        "num_channels": spec.patch,
        "patch_size": 1,
        "image_size": side,
    }


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    if part == "embed":
        mask = Stored(("mask",), lies=(1, spec.d))
        return {
            **vit.embeddings(spec, config, "dinov2."),
            "dinov2.embeddings.mask_token": mask,
        }
    if part == "head":
        return norm("dinov2.layernorm", "norm")
    at = f"dinov2.encoder.layer.{int(part) - 1}"
    return {
        **norm(f"{at}.norm1", "norm1"),
        **linear(f"{at}.attention.attention.query", "Q"),
        **linear(f"{at}.attention.attention.key", "K"),
        **linear(f"{at}.attention.attention.value", "V"),
        **linear(f"{at}.attention.output.dense", "O"),
        f"{at}.layer_scale1.lambda1": Stored(("scale1",), lies=(spec.d,)),
        **norm(f"{at}.norm2", "norm2"),
        **linear(f"{at}.mlp.fc1", "up"),
        **linear(f"{at}.mlp.fc2", "down"),
        f"{at}.layer_scale2.lambda1": Stored(("scale2",), lies=(spec.d,)),
    }


def _preset(layers: int, width: int, heads: int) -> Values:
    return {
        "model_type": "dinov2",
        "architectures": ["Dinov2Model"],
        "hidden_act": "gelu",
        "hidden_size": width,
        "image_size": 518,
        "layer_norm_eps": 1e-6,
        "mlp_ratio": 4,
        "num_attention_heads": heads,
        "num_channels": 3,
        "num_hidden_layers": layers,
        "patch_size": 14,
        "qkv_bias": True,
        "use_swiglu_ffn": False,
    }


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
    },
    read=_read,
    write=_write,
    prefix="dinov2.",
    tensors=_tensors,
    choices={**vit.CHOICES, "layerscale": True, "masked": True},
    rest=fourfold,
    presets={
        "dinov2-small": _preset(12, 384, 6),
        "dinov2-base": _preset(12, 768, 12),
        "dinov2-large": _preset(24, 1024, 16),
    },
    also=(
        *("layerscale_value", "drop_path_rate", "apply_layernorm", "reshape_hidden_states"),
        *("out_features", "out_indices", "stage_names"),  # of its use as a backbone
    ),
    only={"is_causal": (False,), "qkv_bias": (True,), "use_swiglu_ffn": (False,)},
)
