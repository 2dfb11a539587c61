"""DeepSeek-V3: latent attention, dense layers first and then experts, some of them shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segre.errors import SpecError
from segre.models import experts, llama
from segre.models.activations import GATES, activation
from segre.models.config import Config
from segre.models.family import Family, Names, Stored, Values, decoder_labels, linear, norm
from segre.transformer.spec import Transformer
from segre.transformer.tensors import routed


def _read(config: Config) -> Values:
    d, q = config.count("hidden_size"), config.get("q_lora_rank")[1]
    out = {
        **config.common(d),
        **llama.rotary(config, latent=True),
        "head": config.count("qk_nope_head_dim"),
        "dv": config.count("v_head_dim"),
        "rotary": config.even("qk_rope_head_dim"),
        "layout": "interleaved" if config.flag("rope_interleave") else "half",
        "qrank": 0 if q is None else config.count("q_lora_rank"),
        "kvrank": config.count("kv_lora_rank"),
        "mlp": config.named("hidden_act", GATES),
        "eps": config.number("rms_norm_eps"),
    }
    turned = config.given.get("head_dim", out["rotary"]) or d // out["heads"]  # in the library
    if turned != out["rotary"]:
        raise SpecError(f"head_dim: allowed: {out['rotary']}, which is qk_rope_head_dim")
    if config.key_value_heads(out["heads"]) != out["heads"]:
        raise SpecError(
            f"num_key_value_heads is not allowed; allowed: num_attention_heads={out['heads']}"
        )
    dense = config.count("first_k_dense_replace", smallest=0)
    if dense > 0:
        out["ff"] = config.count("intermediate_size")
    if dense < out["layers"]:
        count = config.count("n_routed_experts", "num_local_experts")
        width = config.count("moe_intermediate_size")
        out |= {
            "experts": count,
            "active": config.count("num_experts_per_tok", largest=count),
            "eff": width,
            "shared": width * config.count("n_shared_experts", smallest=0),
            "dense": dense,
            "groups": (groups := config.count("n_group")),
            "within": config.count("topk_group", largest=groups),
            "router": "sigmoid" if config.flag("norm_topk_prob") else "sigmoid-raw",
        }
    return out


def _write(spec: Transformer) -> Values:
    out = {
        "hidden_size": spec.d,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv,
        "qk_nope_head_dim": spec.head,
        "v_head_dim": spec.dv,
        "qk_rope_head_dim": spec.rotary or 2,
        "rope_interleave": spec.layout == "interleaved",
        "q_lora_rank": spec.qrank or None,
        "kv_lora_rank": spec.kvrank or 1,
        "hidden_act": activation(GATES, spec.mlp),
        "rms_norm_eps": float(spec.eps),
        **llama.written_rotary(spec),
        "intermediate_size": spec.ff or 1,
        "first_k_dense_replace": spec.dense if spec.experts else spec.layers,
    }
    if spec.experts:
        out |= {
            "n_routed_experts": spec.experts,
            "num_experts_per_tok": spec.active,
            "moe_intermediate_size": spec.eff,
            "n_shared_experts": spec.shared // spec.eff,
            "norm_topk_prob": spec.router == "sigmoid",
            "n_group": spec.groups or 1,
            "topk_group": spec.within or 1,
        }
    return out


def _rest(given: Mapping[str, Any]) -> Values:
    if given.get("kvrank") == 0:
        return {}
    turned = {"rotary": 2} if given.get("pos", "rope") == "rope" else {}
    return {"qrank": 4, "kvrank": 2, **turned}


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    if part in ("embed", "head"):
        return llama.ends(part)
    at = f"model.layers.{int(part) - 1}"
    own = f"{at}.self_attn"
    sparse = routed(spec, int(part))
    queries = f"{own}.q_b_proj.weight" if spec.qrank else f"{own}.q_proj.weight"
    return {
        **norm(f"{at}.input_layernorm", "norm1"),
        f"{own}.q_a_proj.weight": Stored(("A_Q",)),
        **norm(f"{own}.q_a_layernorm", "normq"),
        queries: Stored(("W_Q", "R_Q"), by_head=True),
        f"{own}.kv_a_proj_with_mqa.weight": Stored(("A_K", "R_K")),
        **norm(f"{own}.kv_a_layernorm", "normk"),
        **linear(f"{own}.kv_b_proj", "K", "V", by_head=True),
        **linear(f"{own}.o_proj", "O"),
        **norm(f"{at}.post_attention_layernorm", "norm2"),
        **(_experts(spec, f"{at}.mlp", config) if sparse else llama.gated(f"{at}.mlp")),
    }


def _experts(spec: Transformer, at: str, config: Config) -> Names:
    """One tensor for each expert, and the shared experts."""
    times = _times(config)
    bias = Stored(("b_R",), shape=(spec.experts, 1, 1))
    out = {f"{at}.gate.weight": Stored(("W_R",)), f"{at}.gate.e_score_correction_bias": bias}
    files = ("gate_proj", "up_proj", "down_proj")
    out |= experts.one_by_one(spec, f"{at}.experts", files, times)
    for name in experts.MAPS:
        out[f"{at}.shared_experts.{name}_proj.weight"] = Stored((f"S_{name}",))
    return out


def _times(config: Config) -> float:
    """Outputs of experts are scaled; in a spec their last map includes the factor."""
    times = float(config.number("routed_scaling_factor"))
    if not times:
        raise SpecError("routed_scaling_factor: 0 is not allowed; allowed: numbers above 0")
    return times


def _stacked(spec: Transformer, part: str, config: Config) -> Names:
    if part in ("embed", "head") or not routed(spec, int(part)):
        return {}
    return experts.stacked(f"model.layers.{int(part) - 1}.mlp.experts", _times(config))


FAMILY = Family(
    model_type="deepseek_v3",
    base_class="DeepseekV3Model",
    head_classes=("DeepseekV3ForCausalLM",),
    label_classes=decoder_labels("DeepseekV3")[:2],
    defaults={
        **llama.DEFAULTS,
        "vocab_size": 129280,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "n_shared_experts": 1,
        "n_routed_experts": 256,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "qk_nope_head_dim": 128,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "norm_topk_prob": True,
        "n_group": 8,
        "topk_group": 4,
        "routed_scaling_factor": 2.5,
        "max_position_embeddings": 4096,
        "rope_interleave": True,
    },
    read=_read,
    write=_write,
    prefix="model.",
    tensors=_tensors,
    stacked=_stacked,
    choices={**llama.CHOICES, "layout": "interleaved"},
    rest=_rest,
    presets={
        "deepseek-v3": llama.preset(
            *("deepseek_v3", "DeepseekV3ForCausalLM"),
            *(61, 7168, 18432, 128, 128, 129280, 163840),
            first_k_dense_replace=3,
            kv_lora_rank=512,
            moe_intermediate_size=2048,
            moe_layer_freq=1,
            n_group=8,
            n_routed_experts=256,
            n_shared_experts=1,
            norm_topk_prob=True,
            num_experts_per_tok=8,
            q_lora_rank=1536,
            qk_nope_head_dim=128,
            qk_rope_head_dim=64,
            rope_scaling={
                "beta_fast": 32,
                "beta_slow": 1,
                "factor": 40,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 4096,
                "type": "yarn",
            },
            rope_theta=10000,
            routed_scaling_factor=2.5,
            scoring_func="sigmoid",
            topk_group=4,
            topk_method="noaux_tc",
            v_head_dim=128,
        )
    },
    also=("num_local_experts", "qk_head_dim"),
    # The library norms latents with an epsilon of 1e-6, whatever rms_norm_eps is; a spec has one.
    only={
        "attention_bias": (False,),
        "moe_layer_freq": (1,),
        "rms_norm_eps": (1e-6,),
        "scoring_func": ("sigmoid",),
        "topk_method": ("noaux_tc",),
    },
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
    unused=("layers.{layers}.",),  # of the module that predicts the second next token
)
