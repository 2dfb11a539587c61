"""DeepSeek-V3: latent attention, dense layers first and then experts, some of them shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segre.errors import SpecError
from segre.models import llama
from segre.models.config import GATES, Config
from segre.models.family import Values
from segre.models.stored import MAPS, Names, Stored, experts, linear, norm, stacked_experts
from segre.transformer.spec import Transformer


def _read(config: Config) -> Values:
    q = config.get("q_lora_rank")[1]
    out = {
        **config.common(),
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
    # as in the library
    rotary = config.given.get("head_dim", out["rotary"]) or out["d"] // out["heads"]
    if rotary != out["rotary"]:
        raise SpecError(f"head_dim: allowed: {out['rotary']}, which is qk_rope_head_dim")
    if config.key_value_heads(out["heads"]) != out["heads"]:
        raise SpecError(
            f"num_key_value_heads is not allowed; allowed: num_attention_heads={out['heads']}"
        )
    dense = config.count("first_k_dense_replace", smallest=0)
    if dense > 0:
        out["ff"] = config.count("intermediate_size")
    if dense < out["layers"]:
        count = config.count("num_local_experts")
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


def _rest(given: Mapping[str, Any]) -> Values:
    if given.get("kvrank") == 0:
        return {}
    rotary = {"rotary": 2} if given.get("pos", "rope") == "rope" else {}
    return {"qrank": 4, "kvrank": 2, **rotary}


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    queries = "self_attn.q_b_proj.weight" if spec.qrank else "self_attn.q_proj.weight"
    attention = {
        "self_attn.q_a_proj.weight": Stored(("A_Q",)),
        **norm("self_attn.q_a_layernorm", "normq"),
        queries: Stored(("W_Q", "R_Q"), by_head=True),
        "self_attn.kv_a_proj_with_mqa.weight": Stored(("A_K", "R_K")),
        **norm("self_attn.kv_a_layernorm", "normk"),
        **linear("self_attn.kv_b_proj", "K", "V", by_head=True),
        **linear("self_attn.o_proj", "O"),
    }
    times = float(config.positive("routed_scaling_factor"))  # specs have it in the last map
    mlp = {
        **llama.GATED,
        **llama.ROUTER,
        "mlp.gate.e_score_correction_bias": Stored(("b_R",), shape=(spec.experts, 1, 1)),
        **experts("mlp.experts", "gate_proj", "up_proj", "down_proj", times),
        **stacked_experts("mlp.experts", times),
        **{f"mlp.shared_experts.{map}_proj.weight": Stored((f"S_{map}",)) for map in MAPS},
    }
    return llama.layout(llama.normed(attention, mlp))(spec, part, config)


FAMILY = llama.family(
    "deepseek_v3",
    "DeepseekV3",
    labels=2,
    defaults={
        **llama.sizes(61, 7168, 18432, 128, 128, 129280, 4096),
        "moe_intermediate_size": 2048,
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
        "rope_interleave": True,
    },
    read=_read,
    tensors=_tensors,
    choices={**llama.CHOICES, "layout": "interleaved"},
    rest=_rest,
    models={
        "deepseek-v3": {
            "max_position_embeddings": 163840,
            "rope_scaling": {
                "beta_fast": 32,
                "beta_slow": 1,
                "factor": 40,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 4096,
                "type": "yarn",
            },
        }
    },
    own={"num_local_experts": "n_routed_experts"},
    also=("num_local_experts", "qk_head_dim"),
    # The library norms latents with an epsilon of 1e-6, whatever rms_norm_eps is; a spec has one.
    only={
        "attention_bias": (False,),
        "moe_layer_freq": (1,),
        "rms_norm_eps": (1e-6,),
        "scoring_func": ("sigmoid",),
        "topk_method": ("noaux_tc",),
    },
    unused=("layers.{layers}.",),  # of the module that predicts the second next token
)
