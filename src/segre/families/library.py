"""What the transformers library has where a config is silent, and what specs do not say."""

from __future__ import annotations

from typing import Any

_ROTARY: dict[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": None,
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
_SLIDING: dict[str, Any] = {
    **_ROTARY,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "layer_types": None,
}
_BERT: dict[str, Any] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "tie_word_embeddings": True,
}

# By model type, then by key.
DEFAULTS: dict[str, dict[str, Any]] = {
    "gpt2": {
        "vocab_size": 50257,
        "n_positions": 1024,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
    },
    "bert": _BERT,
    "albert": {
        **_BERT,
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
    },
    "llama": {
        **_ROTARY,
        "vocab_size": 32000,
        "intermediate_size": 11008,
        "num_key_value_heads": None,
        "max_position_embeddings": 2048,
        "attention_bias": False,
        "mlp_bias": False,
    },
    "mistral": {
        **_ROTARY,
        "vocab_size": 32000,
        "intermediate_size": 14336,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
    "qwen2": _SLIDING,
    "qwen3": {**_SLIDING, "head_dim": 128},
    "gemma2": {
        **_ROTARY,
        "vocab_size": 256000,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
        "final_logit_softcapping": 30.0,
        "attn_logit_softcapping": 50.0,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "layer_types": None,
    },
    "deepseek_v3": {
        **_ROTARY,
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
        "max_position_embeddings": 4096,
        "rope_interleave": True,
    },
}

# The class without a head, and those with a distribution over the vocabulary.
HIDDEN = {
    "gpt2": "GPT2Model",
    "bert": "BertModel",
    "albert": "AlbertModel",
    "llama": "LlamaModel",
    "mistral": "MistralModel",
    "qwen2": "Qwen2Model",
    "qwen3": "Qwen3Model",
    "gemma2": "Gemma2Model",
    "deepseek_v3": "DeepseekV3Model",
}
CLASSES: dict[str, tuple[str, ...]] = {
    **{key: (name.removesuffix("Model") + "ForCausalLM",) for key, name in HIDDEN.items()},
    "gpt2": ("GPT2LMHeadModel",),
    "bert": ("BertForMaskedLM", "BertLMHeadModel"),
    "albert": ("AlbertForMaskedLM",),
}

# The only values of a key that specs can say (besides null); deepseek_v3 norms its latents with
# an epsilon of 1e-6 whatever rms_norm_eps is, and a spec has one epsilon.
ONLY: dict[str, dict[str, tuple[Any, ...]]] = {
    "all": {
        "add_cross_attention": (False,),
        "is_causal": (True,),
        "is_encoder_decoder": (False,),
        "pruned_heads": ({},),
    },
    "bert": {
        "is_causal": (False,),
        "is_decoder": (False,),
        "position_embedding_type": ("absolute",),
    },
    "albert": {
        "is_causal": (False,),
        "is_decoder": (False,),
        "position_embedding_type": ("absolute",),
        "num_hidden_groups": (1,),
        "inner_group_num": (1,),
    },
    "qwen3": {"attention_bias": (False,)},
    "gemma2": {"attention_bias": (False,), "use_bidirectional_attention": (False,)},
    "deepseek_v3": {
        "attention_bias": (False,),
        "moe_layer_freq": (1,),
        "norm_topk_prob": (True,),
        "rms_norm_eps": (1e-6,),
        "scoring_func": ("sigmoid",),
        "topk_method": ("noaux_tc",),
    },
}

# Names of activations, by what an MLP (or one with a gate) is then called.
_TANH = ("gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate")
UNITS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    **dict.fromkeys(_TANH, "gelu-tanh"),
    "quick_gelu": "gelu-quick",
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
    "relu2": "relu2",
}
GATES = {
    "silu": "swiglu",
    "swish": "swiglu",
    "gelu": "geglu",
    "gelu_python": "geglu",
    **dict.fromkeys(_TANH, "geglu-tanh"),
    "quick_gelu": "geglu-quick",
    "relu": "reglu",
    "linear": "bilinear",
}
