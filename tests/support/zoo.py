"""Tiny models of every kind that checkpoints are read of, built by the transformers library.

Weights are random and seeded. Gains and biases are random too, except the gains of the norms of
queries and keys of qwen3-tied, which are 1.
"""

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from transformers import (
    AlbertConfig,
    BertConfig,
    DeepseekV3Config,
    Dinov2Config,
    DistilBertConfig,
    ElectraConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GPT2Config,
    GPTNeoXConfig,
    GptOssConfig,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    ModernBertConfig,
    Olmo2Config,
    OPTConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
    RobertaConfig,
    SmolLM3Config,
    ViTConfig,
)

UNIT_GAINS = ("qwen3-tied",)
SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "vocab_size": 61,
    "max_position_embeddings": 32,
}
BLOCKS = ("hidden_size", "num_hidden_layers", "num_attention_heads")
PATCHES: dict[str, Any] = {"image_size": 12, "patch_size": 3, "num_channels": 3}
TWO: dict[str, Any] = {**SIZES, "num_key_value_heads": 2}
FOUR: dict[str, Any] = {**SIZES, "num_key_value_heads": 4}
GPT2: dict[str, Any] = {
    "n_embd": 24,
    "n_layer": 3,
    "n_head": 4,
    "vocab_size": 61,
    "n_positions": 32,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
GEMMA2: dict[str, Any] = {
    "head_dim": 8,
    "query_pre_attn_scalar": 5,
    "attn_logit_softcapping": 3.0,
    "final_logit_softcapping": 20.0,
    "sliding_window": 6,
    "pad_token_id": None,
}
OSS: dict[str, Any] = {
    "head_dim": 6,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "swiglu_limit": 0.5,
    "sliding_window": 6,
}
NEOX: dict[str, Any] = {**SIZES, "rotary_pct": 1 / 3}
SERIAL: dict[str, Any] = {**NEOX, "rotary_pct": 2 / 3, "use_parallel_residual": False}
DISTILBERT: dict[str, Any] = {
    **{"dim": 24, "n_layers": 3, "n_heads": 4, "hidden_dim": 40},
    **{"vocab_size": 61, "max_position_embeddings": 32},
}
MODERNBERT: dict[str, Any] = {"local_attention": 8, "pad_token_id": None}
OPT: dict[str, Any] = {
    **{"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "ffn_dim": 40},
    **{"vocab_size": 61, "max_position_embeddings": 32},
}
GEMMA3: dict[str, Any] = {
    "head_dim": 8,
    "query_pre_attn_scalar": 5,
    "sliding_window": 6,
    "sliding_window_pattern": 2,
    "pad_token_id": None,
}
OLMO2: dict[str, Any] = {"pad_token_id": None}
PHI3: dict[str, Any] = {"pad_token_id": None, "sliding_window": 6, "head_dim": 8}
PART: dict[str, Any] = {"partial_rotary_factor": 0.5}
GRANITE: dict[str, Any] = {
    "attention_multiplier": 0.25,
    "embedding_multiplier": 12.0,
    "logits_scaling": 8.0,
    "residual_multiplier": 0.22,
}
SMOLLM3: dict[str, Any] = {"no_rope_layer_interval": 2, "pad_token_id": None}
BIASED: dict[str, Any] = {"attention_bias": True}
QWEN3_MOE: dict[str, Any] = {
    "head_dim": 8,
    "tie_word_embeddings": True,
    "moe_intermediate_size": 8,
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "mlp_only_layers": [0],
}
DEEPSEEK: dict[str, Any] = {
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 5,
    "q_lora_rank": 8,
    "kv_lora_rank": 12,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "pad_token_id": None,
}
TIED: dict[str, Any] = {"tie_word_embeddings": True}
UNTIED: dict[str, Any] = {"tie_word_embeddings": False}

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def tiny_models() -> Iterator[tuple[str, Any, str]]:
    """Name, config and class of every model."""
    yield "llama", LlamaConfig(**TWO), "LlamaForCausalLM"
    yield "llama-tied", LlamaConfig(**TWO, **TIED), "LlamaForCausalLM"
    yield "llama-mha", LlamaConfig(**FOUR), "LlamaForCausalLM"
    yield "llama-hidden", LlamaConfig(**TWO), "LlamaModel"
    yield "llama-bias", LlamaConfig(**TWO, attention_bias=True, mlp_bias=True), "LlamaForCausalLM"
    yield "mistral", MistralConfig(**TWO, head_dim=8), "MistralForCausalLM"
    yield "qwen2", Qwen2Config(**TWO), "Qwen2ForCausalLM"
    yield "qwen2-wide", Qwen2Config(**FOUR, head_dim=8), "Qwen2ForCausalLM"
    yield "qwen2-tied", Qwen2Config(**TWO, **TIED), "Qwen2ForCausalLM"
    yield "qwen3", Qwen3Config(**TWO, head_dim=8), "Qwen3ForCausalLM"
    yield "qwen3-tied", Qwen3Config(**TWO, head_dim=8, **TIED), "Qwen3ForCausalLM"
    yield "gpt2", GPT2Config(**GPT2), "GPT2LMHeadModel"
    yield "gpt2-untied", GPT2Config(**GPT2, **UNTIED), "GPT2LMHeadModel"
    yield "gpt2-hidden", GPT2Config(**GPT2), "GPT2Model"
    yield "gpt2-relu", GPT2Config(**GPT2, activation_function="relu"), "GPT2LMHeadModel"
    yield "gpt-neox", GPTNeoXConfig(**NEOX), "GPTNeoXForCausalLM"
    yield "gpt-neox-tied", GPTNeoXConfig(**NEOX, **TIED), "GPTNeoXForCausalLM"
    yield "gpt-neox-serial", GPTNeoXConfig(**SERIAL), "GPTNeoXForCausalLM"
    yield "gpt-neox-hidden", GPTNeoXConfig(**NEOX), "GPTNeoXModel"
    yield "bert", BertConfig(**SIZES), "BertModel"
    yield "bert-mlm", BertConfig(**SIZES), "BertForMaskedLM"
    yield "bert-untied", BertConfig(**SIZES, **UNTIED), "BertForMaskedLM"
    yield "bert-labels", BertConfig(**SIZES, num_labels=3), "BertForSequenceClassification"
    yield "bert-tokens", BertConfig(**SIZES, num_labels=3), "BertForTokenClassification"
    yield "bert-pretraining", BertConfig(**SIZES), "BertForPreTraining"
    yield "gpt2-tokens", GPT2Config(**GPT2, num_labels=3), "GPT2ForTokenClassification"
    yield "llama-labels", LlamaConfig(**TWO, num_labels=1), "LlamaForSequenceClassification"
    yield "gemma2", Gemma2Config(**TWO, **GEMMA2), "Gemma2ForCausalLM"
    yield "gemma2-untied", Gemma2Config(**TWO, **GEMMA2, **UNTIED), "Gemma2ForCausalLM"
    yield "gemma2-hidden", Gemma2Config(**TWO, **GEMMA2), "Gemma2Model"
    yield "roberta", RobertaConfig(**SIZES), "RobertaModel"
    yield "roberta-mlm", RobertaConfig(**SIZES, type_vocab_size=1), "RobertaForMaskedLM"
    yield "opt", OPTConfig(**OPT), "OPTForCausalLM"
    yield "opt-post", OPTConfig(**OPT, do_layer_norm_before=False), "OPTForCausalLM"
    yield "electra", ElectraConfig(**SIZES, embedding_size=10), "ElectraModel"
    yield "electra-mlm", ElectraConfig(**SIZES, embedding_size=10), "ElectraForMaskedLM"
    yield (
        "electra-untied",
        ElectraConfig(**SIZES, **UNTIED, embedding_size=10),
        "ElectraForMaskedLM",
    )
    yield "albert", AlbertConfig(**SIZES, embedding_size=10), "AlbertModel"
    yield "albert-mlm", AlbertConfig(**SIZES, embedding_size=10), "AlbertForMaskedLM"
    yield "distilbert", DistilBertConfig(**DISTILBERT), "DistilBertForMaskedLM"
    yield "llama-attn-bias", LlamaConfig(**TWO, attention_bias=True), "LlamaForCausalLM"
    yield "llama-mlp-bias", LlamaConfig(**TWO, mlp_bias=True), "LlamaForCausalLM"
    yield "gemma", GemmaConfig(**TWO, head_dim=8, pad_token_id=None), "GemmaForCausalLM"
    yield "gemma3", Gemma3TextConfig(**TWO, **GEMMA3), "Gemma3ForCausalLM"
    yield "gemma3-untied", Gemma3TextConfig(**TWO, **GEMMA3, **UNTIED), "Gemma3ForCausalLM"
    yield "olmo2", Olmo2Config(**TWO, **OLMO2), "Olmo2ForCausalLM"
    yield "olmo2-bias", Olmo2Config(**FOUR, **OLMO2, **BIASED), "Olmo2ForCausalLM"
    yield "olmo2-tied", Olmo2Config(**FOUR, **OLMO2, **TIED), "Olmo2ForCausalLM"
    yield "phi3", Phi3Config(**TWO, **PHI3), "Phi3ForCausalLM"
    yield "phi3-part", Phi3Config(**TWO, **PHI3, **PART), "Phi3ForCausalLM"
    yield "granite", GraniteConfig(**TWO, **GRANITE), "GraniteForCausalLM"
    yield "granite-tied", GraniteConfig(**TWO, **GRANITE, **TIED), "GraniteForCausalLM"
    yield "smollm3", SmolLM3Config(**TWO, **SMOLLM3), "SmolLM3ForCausalLM"
    yield "smollm3-bias", SmolLM3Config(**TWO, **SMOLLM3, **UNTIED, **BIASED), "SmolLM3ForCausalLM"
    yield "gemma-hidden", GemmaConfig(**TWO, head_dim=8, pad_token_id=None), "GemmaModel"
    yield "gpt-oss", GptOssConfig(**TWO, **OSS), "GptOssForCausalLM"
    yield "gpt-oss-tied", GptOssConfig(**TWO, **OSS, **TIED), "GptOssForCausalLM"
    yield "gpt-oss-hidden", GptOssConfig(**TWO, **OSS), "GptOssModel"
    yield "mixtral", MixtralConfig(**TWO, num_local_experts=4), "MixtralForCausalLM"
    yield "qwen3-moe", Qwen3MoeConfig(**TWO, **QWEN3_MOE), "Qwen3MoeForCausalLM"
    yield "qwen3-moe-hidden", Qwen3MoeConfig(**TWO, **QWEN3_MOE), "Qwen3MoeModel"
    yield "deepseek-v3", DeepseekV3Config(**FOUR, **DEEPSEEK), "DeepseekV3ForCausalLM"
    groups = {"n_routed_experts": 6, "n_group": 3, "topk_group": 2}
    plain = {**DEEPSEEK, **groups, "q_lora_rank": None, "rope_interleave": False, **TIED}
    yield "deepseek-v3-tied", DeepseekV3Config(**FOUR, **plain), "DeepseekV3ForCausalLM"
    yield "gpt2-labels", GPT2Config(**GPT2, num_labels=3), "GPT2ForSequenceClassification"
    yield "phi3-labels", Phi3Config(**TWO, **PHI3), "Phi3ForSequenceClassification"
    yield "modernbert", ModernBertConfig(**SIZES, **MODERNBERT), "ModernBertForMaskedLM"
    unbiased = {**MODERNBERT, "decoder_bias": False, "global_attn_every_n_layers": 2}
    yield "modernbert-unbiased", ModernBertConfig(**SIZES, **unbiased), "ModernBertForMaskedLM"


def tiny_images() -> Iterator[tuple[str, Any, str]]:
    """The same, of models of patches."""
    vit = {**{key: SIZES[key] for key in BLOCKS}, "intermediate_size": 40, **PATCHES}
    dino = {**{key: SIZES[key] for key in BLOCKS}, "mlp_ratio": 2, **PATCHES}
    yield "vit", ViTConfig(**vit), "ViTModel"
    yield "vit-labels", ViTConfig(**vit, num_labels=3), "ViTForImageClassification"
    yield "dinov2", Dinov2Config(**dino), "Dinov2Model"


# Once: making a config takes the library longer than making a model of it.
_MODELS = {name: (config, kind) for name, config, kind in tiny_models()}
_IMAGES = {name: (config, kind) for name, config, kind in tiny_images()}
NAMES, IMAGES = tuple(_MODELS), tuple(_IMAGES)


def tiny(name: str) -> Any:
    """A model of the library, by name."""
    config, kind = (_MODELS | _IMAGES)[name]
    seed = (*NAMES, *IMAGES).index(name)
    return randomised(deepcopy(config), kind, seed, unit_gains=name in UNIT_GAINS)


def randomised(config: Any, kind: str, seed: int, *, unit_gains: bool = False) -> Any:
    """A model of any config, with random gains and biases."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        model = getattr(transformers, kind)(config).eval()
        for key, weight in model.named_parameters():
            if weight.ndim > 1 and not key.endswith("bias"):
                weight *= 5
            elif not (unit_gains and "_norm" in key):
                weight += 0.3 * torch.randn_like(weight)
                if config.model_type.startswith("gemma"):  # the gain is 1 more: some are negative
                    weight -= 2.0 * (torch.rand_like(weight) < 0.25)
        for key, buffer in model.named_buffers():
            if key.endswith("e_score_correction_bias"):
                buffer += 0.1 * torch.randn_like(buffer)
        tied = getattr(model, "_tied_weights_keys", None) or {}
        for one, two in tied.items():  # one bias under two names
            if one.endswith("bias"):
                model.get_parameter(one).copy_(model.get_parameter(two))
    return model


def save_tiny(name: str, directory: Path) -> Path:
    """Write a model as a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for file, data in _files(name).items():
        (directory / file).write_bytes(data)
    return directory


@cache
def _files(name: str) -> dict[str, bytes]:
    """What the library writes: once, as building a model takes longer than most tests of it."""
    with TemporaryDirectory() as folder:
        tiny(name).save_pretrained(folder)
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}
