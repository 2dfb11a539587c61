"""The models people run: what their public config.json says of the architecture."""

from __future__ import annotations

from typing import Any


def _gpt2(layers: int, width: int, heads: int) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "n_embd": width,
        "n_head": heads,
        "n_layer": layers,
        "n_positions": 1024,
        "vocab_size": 50257,
    }


def _bert(layers: int, width: int, heads: int, head: str = "BertForMaskedLM") -> dict[str, Any]:
    return {
        "model_type": "bert",
        "architectures": [head],
        "hidden_act": "gelu",
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "type_vocab_size": 2,
        "vocab_size": 30522,
    }


def _decoder(
    model_type: str,
    prefix: str,
    layers: int,
    width: int,
    ff: int,
    heads: int,
    kv: int,
    vocab: int,
    length: int,
    **rest: Any,
) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "architectures": [f"{prefix}ForCausalLM"],
        "hidden_size": width,
        "intermediate_size": ff,
        "max_position_embeddings": length,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv,
        "vocab_size": vocab,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        **rest,
    }


def _llama(*sizes: int, **rest: Any) -> dict[str, Any]:
    return _decoder("llama", "Llama", *sizes, **{"rms_norm_eps": 1e-5, **rest})


def _mistral(*sizes: int, **rest: Any) -> dict[str, Any]:
    return _decoder("mistral", "Mistral", *sizes, **{"rms_norm_eps": 1e-5, **rest})


def _qwen2(*sizes: int, **rest: Any) -> dict[str, Any]:
    return _decoder("qwen2", "Qwen2", *sizes, **{"rope_theta": 1000000.0, **rest})


def _qwen3(*sizes: int, **rest: Any) -> dict[str, Any]:
    given = {"head_dim": 128, "rope_theta": 1000000, **rest}
    return _decoder("qwen3", "Qwen3", *sizes, **given)


def _gemma2(*sizes: int, **rest: Any) -> dict[str, Any]:
    given = {
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "head_dim": 256,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh",
        "sliding_window": 4096,
        "tie_word_embeddings": True,
        **rest,
    }
    return _decoder("gemma2", "Gemma2", *sizes, **given)


PRESETS: dict[str, dict[str, Any]] = {
    "gpt2": _gpt2(12, 768, 12),
    "gpt2-medium": _gpt2(24, 1024, 16),
    "gpt2-large": _gpt2(36, 1280, 20),
    "gpt2-xl": _gpt2(48, 1600, 25),
    "bert-base-uncased": _bert(12, 768, 12),
    "bert-large-uncased": _bert(24, 1024, 16),
    "minilm-l6-v2": _bert(6, 384, 12, "BertModel"),
    "albert-base-v2": {
        **_bert(12, 768, 12),
        "model_type": "albert",
        "architectures": ["AlbertForMaskedLM"],
        "embedding_size": 128,
        "hidden_act": "gelu_new",
        "inner_group_num": 1,
        "num_hidden_groups": 1,
        "vocab_size": 30000,
    },
    "llama-2-7b": _llama(32, 4096, 11008, 32, 32, 32000, 4096),
    "llama-3-8b": _llama(32, 4096, 14336, 32, 8, 128256, 8192, rope_theta=500000.0),
    "llama-3-70b": _llama(80, 8192, 28672, 64, 8, 128256, 8192, rope_theta=500000.0),
    "llama-3.2-1b": _llama(
        *(16, 2048, 8192, 32, 8, 128256, 131072),
        head_dim=64,
        rope_scaling={
            "factor": 32.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        rope_theta=500000.0,
        tie_word_embeddings=True,
    ),
    "smollm2-135m": _llama(
        *(30, 576, 1536, 9, 3, 49152, 8192), rope_theta=100000, tie_word_embeddings=True
    ),
    "mistral-7b-v0.1": _mistral(32, 4096, 14336, 32, 8, 32000, 32768, sliding_window=4096),
    "mistral-7b-v0.3": _mistral(
        *(32, 4096, 14336, 32, 8, 32768, 32768), rope_theta=1000000.0, sliding_window=None
    ),
    "qwen2-0.5b": _qwen2(24, 896, 4864, 14, 2, 151936, 131072, tie_word_embeddings=True),
    "qwen2-7b": _qwen2(28, 3584, 18944, 28, 4, 152064, 131072),
    "qwen3-0.6b": _qwen3(28, 1024, 3072, 16, 8, 151936, 40960, tie_word_embeddings=True),
    "qwen3-8b": _qwen3(36, 4096, 12288, 32, 8, 151936, 40960),
    "gemma-2-2b": _gemma2(26, 2304, 9216, 8, 4, 256000, 8192),
    "gemma-2-9b": _gemma2(42, 3584, 14336, 16, 8, 256000, 8192),
    "deepseek-v3": _decoder(
        *("deepseek_v3", "DeepseekV3", 61, 7168, 18432, 128, 128, 129280, 163840),
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
    ),
}
