"""Random small configs of every family, and the library's models of them."""

from random import Random
from typing import Any

import numpy as np
import torch
import transformers
from bench.double import Double
from torch import nn

from segre.models.config import GATES, UNITS
from segre.models.registry import MODEL_TYPES
from segre.transformer.spec import Transformer

WITH_CAPS = ("gemma2", "gemma3_text")
# By family: its classes; the class without a head is the second.
HEADS = {
    name: (
        family.head_classes[0],
        family.base_class,
        *family.head_classes[1:],
        *((family.related_class,) if family.related_class else ()),
        *(found.name for found in family.label_classes),
    )
    for name, family in MODEL_TYPES.items()
    if "vocab_size" in family.defaults  # models of patches have tests of their own
}
WORDS = {  # the classes with a distribution over the vocabulary
    name: (*family.head_classes, family.related_class) for name, family in MODEL_TYPES.items()
}

ENCODERS = ("bert", "roberta", "xlm-roberta", "electra", "albert")


def random_config(model_type: str, rng: Random, head: str | None = None) -> dict[str, Any]:
    """A small config in which every choice that a spec can say is sometimes made."""
    heads, dim = rng.choice([1, 2, 3, 4]), rng.choice([2, 4, 6])
    out: dict[str, Any] = {
        "model_type": model_type,
        "architectures": [head or rng.choice(HEADS[model_type])],
        "hidden_size": heads * dim,
        "num_attention_heads": heads,
        "num_hidden_layers": rng.choice([1, 2]),
        "vocab_size": rng.randint(3, 9),
        "max_position_embeddings": rng.randint(4, 8),
        "intermediate_size": rng.randint(1, 9),
        "tie_word_embeddings": rng.random() < 0.5,
        "pad_token_id": None,  # the library never trains the embedding of padding
        "bos_token_id": None,
        "eos_token_id": None,
    }
    if out["architectures"][0] != MODEL_TYPES[model_type].base_class:
        out["num_labels"] = 2 if "Answering" in out["architectures"][0] else rng.choice([1, 2, 3])
        if out["architectures"][0] == MODEL_TYPES[model_type].related_class:
            out["num_labels"] = rng.choice([2, 3])
    eps = rng.choice([1e-6, 1e-3, 0.1, 0.5])
    if model_type == "gpt2":
        inner = out.pop("intermediate_size")
        out |= {"n_inner": rng.choice([None, inner]), "layer_norm_epsilon": eps}
        out |= {"scale_attn_weights": rng.random() < 0.5}
        out |= {"scale_attn_by_inverse_layer_idx": rng.random() < 0.3}
        out |= {"activation_function": rng.choice(list(UNITS))}
    elif model_type == "gpt_neox":
        turning = rng.choice([n for n in (2, 4, 6) if n <= dim])
        out |= {"layer_norm_eps": eps, "hidden_act": rng.choice(list(UNITS))}
        out |= {"use_parallel_residual": rng.random() < 0.6}
        out["rope_parameters"] = {
            "rope_theta": rng.choice([10000.0, 7.0]),
            **random_rescaling(rng),
            "partial_rotary_factor": turning / dim,
        }
        if out["rope_parameters"]["rope_type"] == "dynamic" and turning < 4:
            out["rope_parameters"] |= {"rope_type": "linear"}
    elif model_type == "opt":
        out |= {"ffn_dim": out.pop("intermediate_size"), "enable_bias": rng.random() < 0.7}
        out["layer_norm_elementwise_affine"] = rng.random() < 0.7
        out["do_layer_norm_before"] = rng.random() < 0.6
        out["_remove_final_layer_norm"] = rng.random() < 0.2
        out["activation_function"] = rng.choice(list(UNITS))
        last = not out["do_layer_norm_before"] or not out["_remove_final_layer_norm"]
        if last and out["architectures"][0] in ("OPTForCausalLM", "OPTModel"):
            out["word_embed_proj_dim"] = rng.choice([heads * dim, max(1, heads * dim - 1), 2])
    elif model_type == "distilbert":
        out |= {"hidden_dim": out.pop("intermediate_size"), "activation": rng.choice(list(UNITS))}
    elif model_type in ENCODERS:
        out |= {"type_vocab_size": rng.randint(1, 3), "layer_norm_eps": eps}
        out |= {"hidden_act": rng.choice(list(UNITS))}
        if model_type == "electra":
            out["embedding_size"] = rng.choice([2, 3, heads * dim, 15])
            if out["architectures"] != [HEADS[model_type][1]]:
                out["hidden_act"] = "gelu"  # that of the head
        if model_type == "albert":
            out["num_hidden_layers"] = rng.randint(1, 3)
            out["embedding_size"] = rng.choice([2, 3, heads * dim, 15])
        if model_type in ("roberta", "xlm-roberta"):  # whose heads have gelu
            pad = rng.randint(0, 2)  # is not among the inputs of the tests
            out |= {"pad_token_id": pad, "max_position_embeddings": pad + rng.randint(5, 8)}
            out["vocab_size"] = rng.randint(4, 9)
            if out["architectures"] != [HEADS[model_type][1]]:
                out["hidden_act"] = "gelu"
    elif model_type == "modernbert":
        out |= random_modernbert(out["num_hidden_layers"], rng) | {"norm_eps": eps}
        if dim < 4:  # dynamic rescaling needs two planes
            out["rope_parameters"] = None
    else:
        out["rope_parameters"] = {
            "rope_theta": rng.choice([10000.0, 100.0, 999999.4420358813, 7.5]),
            **random_rescaling(rng),
        }
        if model_type == "gemma3_text":
            out["rope_parameters"] = rotations_by_kind(rng)
        act = "hidden_activation" if model_type in WITH_CAPS else "hidden_act"
        out |= {"rms_norm_eps": eps, act: rng.choice(list(GATES))}
        kv = rng.choice([k for k in range(1, heads + 1) if heads % k == 0])
        out |= {"num_key_value_heads": kv, "head_dim": rng.choice([2, 4, 6, 8])}
    if out["architectures"][0] not in (*WORDS[model_type], MODEL_TYPES[model_type].base_class):
        out.pop("_remove_final_layer_norm", None)  # labels need a norm before them
    known = MODEL_TYPES[model_type].defaults
    if known.get("head_dim", 0) is None and model_type != "deepseek_v3" and rng.random() < 0.3:
        del out["head_dim"]
        if model_type in ("mixtral", "minimax"):  # the library's rescaling fails without it
            out["rope_parameters"] = {"rope_theta": 100.0, "rope_type": "default"}
    out |= random_windows(model_type, out["num_hidden_layers"], rng)
    for key in ("attention_bias", "mlp_bias"):
        if key in known:
            out[key] = rng.random() < 0.5
    if model_type == "phi3":
        part = rng.choice([1.0, 1.0, 0.5, 0.75])
        part = part if part == 1 or out.get("head_dim") == 8 else 1.0
        theta = out["rope_parameters"]["rope_theta"]
        out["rope_parameters"] = {"rope_theta": theta, "partial_rotary_factor": part}
        # of more than the planes of heads that divide the width the library knows nothing
        if out.get("head_dim", dim) == dim and int(dim * part) > 1 and rng.random() < 0.5:
            out["rope_parameters"] |= random_longrope(int(dim * part) // 2, rng)
            length = out["rope_parameters"]["original_max_position_embeddings"]
            out["original_max_position_embeddings"] = length
    if model_type in ("llama", "qwen3") and rng.random() < 0.3:
        out["rope_parameters"] = {
            "rope_theta": 100.0,
            **random_longrope(out.get("head_dim", dim) // 2, rng),
        }
    if model_type == "granite":
        out["attention_multiplier"] = rng.choice([1.0, 0.015625, 0.1, 8**-0.5])
        for key in ("embedding_multiplier", "logits_scaling", "residual_multiplier"):
            out[key] = rng.choice([1.0, 12.0, 0.22])
    if model_type in WITH_CAPS:
        out["query_pre_attn_scalar"] = rng.choice([1, 5, 16])
        out["attn_logit_softcapping"] = rng.choice([None, 0.5, 2.0, 50.0])
        out["final_logit_softcapping"] = rng.choice([None, 1.5, 30.0])
    if model_type == "deepseek_v3":
        del out["head_dim"]
        experts = rng.randint(2, 6)
        out |= {
            "rms_norm_eps": 1e-6,
            "num_key_value_heads": heads,
            "q_lora_rank": rng.choice([None, 1, 5]),
            "kv_lora_rank": rng.randint(1, 6),
            "qk_nope_head_dim": rng.randint(1, 5),
            "qk_rope_head_dim": rng.choice([2, 4, 6]),
            "v_head_dim": rng.randint(1, 5),
            "rope_interleave": rng.random() < 0.5,
            "first_k_dense_replace": rng.randint(0, 2),
            "n_routed_experts": experts,
            "num_experts_per_tok": rng.randint(1, experts),
            "n_shared_experts": rng.randint(1, 2),
            "moe_intermediate_size": rng.randint(2, 5),  # of 1 the library writes vectors
            "n_group": 1,
            "topk_group": 1,
            "routed_scaling_factor": rng.choice([1.0, 2.5]),
            "norm_topk_prob": rng.random() < 0.7,
        }
        if rng.random() < 0.5:  # groups of at least two experts
            size, groups = rng.choice([2, 3]), rng.choice([2, 3])
            allowed = rng.randint(1, groups)
            out |= {"n_routed_experts": size * groups, "n_group": groups, "topk_group": allowed}
            out["num_experts_per_tok"] = rng.randint(1, size * allowed)
    if model_type == "minimax":
        out |= random_minimax(out["num_hidden_layers"], rng)
    if model_type in ("mixtral", "minimax", "qwen3_moe"):
        experts = rng.randint(2, 6)
        out |= {"num_experts_per_tok": rng.randint(1, experts)}
        local = model_type in ("mixtral", "minimax")
        out["num_local_experts" if local else "num_experts"] = experts
        out["intermediate_size"] = rng.randint(2, 9)  # of 1 the library writes vectors
    if model_type == "gpt_oss":
        experts = rng.randint(1, 6)
        out |= {"num_local_experts": experts, "num_experts_per_tok": rng.randint(1, experts)}
        out |= {"attention_bias": rng.random() < 0.7, "swiglu_limit": rng.choice([0.5, 1.0, 7.0])}
        out |= {"hidden_act": "silu", "intermediate_size": rng.randint(2, 5)}
    if model_type == "qwen3_moe":
        out |= {
            "moe_intermediate_size": rng.randint(2, 5),
            "attention_bias": rng.random() < 0.3,
            "norm_topk_prob": rng.random() < 0.5,
            "mlp_only_layers": rng.choice([None, [], [0], [1]]),
            "decoder_sparse_step": rng.choice([1, 1, 3]),
        }
        if rng.random() < 0.1:
            out["num_experts"] = 0
    dynamic = "'dynamic'" in str(out.get("rope_parameters"))
    if dynamic and model_type != "gpt_neox":  # needs two planes
        out["qk_rope_head_dim" if model_type == "deepseek_v3" else "head_dim"] = 4
    return out


def random_minimax(layers: int, rng: Random) -> dict[str, Any]:
    """Layers of either kind, and factors of skips and of what is added."""
    kinds = ["full_attention", "linear_attention"]
    alpha = rng.choice([1, 1.5, 3.25])
    return {
        "hidden_act": "silu",
        "layer_types": rng.choice([None, [rng.choice(kinds) for _ in range(layers)]]),
        "block_size": rng.choice([2, 256]),
        "sliding_window": rng.choice([None, 3]),
        **{f"{key}_alpha_factor": alpha for key in ("full_attn", "linear_attn", "mlp")},
        **{f"{key}_beta_factor": rng.choice([1, 0.75]) for key in ("full_attn", "linear_attn")},
        "mlp_beta_factor": rng.choice([1, 1.25]),
    }


def random_rescaling(rng: Random) -> dict[str, Any]:
    """Any kind of rescaled frequencies, with lengths at which they make a difference."""
    length = rng.choice([2, 8, 40, 100])
    given = {"original_max_position_embeddings": length, "factor": rng.choice([1.0, 2.0, 8.5])}
    slow, fast = rng.choice([(1, 32), (0.5, 2.0)])
    return rng.choice(
        [
            {"rope_type": "default"},
            {"rope_type": "linear", "factor": given["factor"]},
            {"rope_type": "dynamic", "factor": given["factor"]},
            {"rope_type": "llama3", **given, "low_freq_factor": slow, "high_freq_factor": 4.0},
            {"rope_type": "yarn", **given, "beta_fast": fast, "beta_slow": slow},
            {"rope_type": "yarn", **given, "attention_factor": 1.3},
            {"rope_type": "yarn", **given, "beta_fast": fast, "truncate": False},
            {"rope_type": "yarn", **given, "mscale": 1.5, "mscale_all_dim": 0.7},
        ]
    )


def random_longrope(planes: int, rng: Random) -> dict[str, Any]:
    """Frequencies divided by numbers of their own, in short inputs and in long ones."""
    lists = [[rng.choice([1.0, 1.5, 2.25, 8.1]) for _ in range(planes)] for _ in range(2)]
    return {
        "rope_type": "longrope",
        "short_factor": lists[0],
        "long_factor": lists[1],
        "original_max_position_embeddings": rng.choice([2, 4, 40]),
        **rng.choice([{}, {"factor": 8.5}, {"attention_factor": 1.25}]),
    }


def rotations_by_kind(rng: Random) -> dict[str, Any]:
    """Frequencies of layers with a window, and of those without."""
    thetas = [10000.0, 100.0, 7.0]
    kinds = ("full_attention", "sliding_attention")
    return {kind: {"rope_theta": rng.choice(thetas), **random_rescaling(rng)} for kind in kinds}


def random_modernbert(layers: int, rng: Random) -> dict[str, Any]:
    """What only ModernBERT says: windows on both sides, and how its head is made."""
    kinds = [rng.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]
    act = rng.choice([name for name in GATES if name != "linear"])
    return {
        "hidden_activation": act,
        "classifier_activation": act,
        "decoder_bias": rng.random() < 0.6,
        "local_attention": rng.randint(2, 7),
        "rope_parameters": rng.choice([None, rotations_by_kind(rng)]),
        **rng.choice([{"layer_types": kinds}, {"global_attn_every_n_layers": rng.randint(1, 3)}]),
    }


def random_windows(model_type: str, layers: int, rng: Random) -> dict[str, Any]:
    """Sliding windows where a family has them, often smaller than inputs are long."""
    size = rng.randint(2, 4)
    kinds = [rng.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]
    if model_type in ("mistral", "mixtral", "phi3"):
        return {"sliding_window": rng.choice([None, size])}
    if model_type == "qwen3_moe":
        return {"use_sliding_window": rng.random() < 0.5, "sliding_window": size}
    if model_type in (*WITH_CAPS, "gpt_oss"):
        return {"sliding_window": size, "layer_types": rng.choice([None, kinds])}
    if model_type == "smollm3":
        turned = [rng.choice([0, 1, 1]) for _ in range(layers)]
        how = {"no_rope_layers": turned} if layers == 2 else {"no_rope_layer_interval": size}
        slides = {"use_sliding_window": True, "sliding_window": size}
        return {**how, **rng.choice([{}, slides, {**slides, "layer_types": kinds}])}
    if model_type in ("qwen2", "qwen3"):
        slides = {"use_sliding_window": True, "sliding_window": size}
        by_number = {**slides, "max_window_layers": rng.randint(0, layers)}
        off = {"use_sliding_window": False, "sliding_window": size, "max_window_layers": 0}
        return rng.choice([off, by_number, {**slides, "layer_types": kinds}])
    return {}


def settings(config: dict[str, Any]) -> Any:
    """The library's object for a config."""
    given = {key: value for key, value in config.items() if key != "model_type"}
    slow = {"attn_implementation": "eager", "experts_implementation": "eager"}
    return transformers.AutoConfig.for_model(config["model_type"], **given, **slow)


def library_model(config: dict[str, Any], seed: int) -> nn.Module:
    """The library's model of a config; all of its parameters are random, gains and biases too."""
    build = getattr(transformers, config["architectures"][0])
    with Double():
        model = build(settings(config)).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(0.8 * drawn)
    return model


def prefer_experts(model: nn.Module, seed: int) -> None:
    """Random constants by which routers prefer some experts."""
    generator = torch.Generator().manual_seed(seed)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.copy_(torch.rand(buffer.shape, generator=generator, dtype=torch.float64))


def without_padding(spec: Transformer, tokens: np.ndarray) -> np.ndarray:
    """Tokens without that whose position is the one before the first, which stands for padding."""
    if not spec.offset:
        return tokens
    return np.where(tokens == spec.offset - 1, (tokens + 1) % spec.vocab, tokens)
