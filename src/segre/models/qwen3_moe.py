"""Qwen3-MoE: a qwen3 with routed experts, in all layers or in some."""

from __future__ import annotations

from functools import partial

from segre.errors import SpecError
from segre.models import experts, llama, mixtral
from segre.models.config import Config
from segre.models.family import Values
from segre.models.stored import Names, Stored
from segre.models.windows import widest, window
from segre.transformer.spec import Transformer
from segre.transformer.tensors import routed
from segre.values import quote


def _read(config: Config) -> Values:
    out = llama.decoder(config)
    out["window"] = [window(config) if config.flag("use_sliding_window") else 0]
    return _routing(config, out)


def _routing(config: Config, out: Values) -> Values:
    """A decoder whose MLPs are experts, all of them or some."""
    count = config.count("num_experts", "num_local_experts", smallest=0)
    dense = _dense(config, out["layers"])
    if not count or all(dense):
        return {**out, "experts": 0}
    return {
        **out,
        "ff": out["ff"] if any(dense) else 0,
        "experts": count,
        "active": config.count("num_experts_per_tok", largest=count),
        "eff": config.count("moe_intermediate_size"),
        "dense": dense,
        "router": "softmax" if config.flag("norm_topk_prob") else "softmax-raw",
    }


def _dense(config: Config, layers: int) -> list[int]:
    """Which layers have no experts: 1 or 0."""
    step = config.count("decoder_sparse_step")
    key, plain = config.get("mlp_only_layers")
    if plain is not None and not (isinstance(plain, list) and all(type(i) is int for i in plain)):
        raise SpecError(f"{key}: {quote(str(plain))}; allowed: a list of layers, from 0")
    return [int((i + 1) % step > 0 or i in (plain or ())) for i in range(layers)]


def _write(spec: Transformer) -> Values:
    return {
        **llama.write_decoder(spec),
        "use_sliding_window": bool(spec.window),
        **widest(spec),
        "attention_bias": spec.output_bias,
        **_written_routing(spec),
    }


def _written_routing(spec: Transformer) -> Values:
    """The inverse of `_routing`."""
    out: Values = {"num_experts": spec.experts}
    if spec.experts:
        out |= {
            "num_experts_per_tok": spec.active,
            "moe_intermediate_size": spec.eff,
            "mlp_only_layers": [i for i in range(spec.layers) if not routed(spec, i + 1)],
            "norm_topk_prob": spec.router == "softmax",
        }
    return out


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    if part in ("embed", "head") or not routed(spec, int(part)):
        return llama.TENSORS(spec, part, config)
    at = f"model.layers.{int(part) - 1}.mlp"
    files = ("gate_proj", "up_proj", "down_proj")
    return {
        **mixtral.TENSORS(spec, part, config),
        f"{at}.gate.weight": Stored(("W_R",)),
        **experts.one_by_one(spec, f"{at}.experts", files),
    }


def _stacked(spec: Transformer, part: str, _config: Config) -> Names:
    if part in ("embed", "head") or not routed(spec, int(part)):
        return {}
    return experts.stacked(f"model.layers.{int(part) - 1}.mlp.experts")


_QWEN_3: Values = {"norm_topk_prob": True, "head_dim": 128, "rope_theta": 1000000.0}
FAMILY = llama.family(
    "qwen3_moe",
    "Qwen3Moe",
    defaults={
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 24,
        "num_key_value_heads": 4,
        "attention_bias": False,
        "use_sliding_window": False,
        "sliding_window": 4096,
        "decoder_sparse_step": 1,
        "moe_intermediate_size": 768,
        "num_experts_per_tok": 8,
        "num_experts": 128,
        "norm_topk_prob": False,
        "mlp_only_layers": None,
    },
    also=("num_local_experts", "max_window_layers"),
    read=_read,
    write=_write,
    tensors=_tensors,
    stacked=_stacked,
    choices={**llama.CHOICES, "qknorm": True},
    rest=partial(experts.rest, experts=128, active=8),
    models={
        "qwen3-30b-a3b": llama.sizes(48, 2048, 6144, 32, 4, 151936, 40960, **_QWEN_3),
        "qwen3-235b-a22b": llama.sizes(
            *(94, 4096, 12288, 64, 4, 151936, 40960), **_QWEN_3, moe_intermediate_size=1536
        ),
    },
)
