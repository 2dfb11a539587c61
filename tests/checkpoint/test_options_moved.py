"""Options of configs that were refused before: moved, brought to normal form, and compared."""

from pathlib import Path
from typing import Any

import pytest
import torch

from segre.checkpoint.commands import canonical, info, move, same
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import furthest, outputs, random_tokens
from segre.geometry.at_any_size import counted as dimension_counted
from segre.models import architecture
from support.random_models import library_model

_SIZES = {
    **{"hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 41},
    **{"intermediate_size": 10, "max_position_embeddings": 12, "pad_token_id": None},
    **{"bos_token_id": None, "eos_token_id": None},
}
_DECODER = {**_SIZES, "num_key_value_heads": 2, "head_dim": 4}
_IMAGES = {**_SIZES, "image_size": 6, "patch_size": 2, "num_channels": 2, "mlp_ratio": 2}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 5}
_LATENT = {
    **{"num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1},
    **{"topk_group": 1, "moe_intermediate_size": 5, "kv_lora_rank": 6, "q_lora_rank": 8},
    **{"qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 4},
}
_ROPE = {"rope_theta": 999999.4420358813, "rope_type": "default"}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "biases": ("qwen3", "Qwen3ForCausalLM", {**_DECODER, "attention_bias": True}),
    "swiglu": ("dinov2", "Dinov2Model", {**_IMAGES, "use_swiglu_ffn": True}),
    "dense later": (
        *("qwen3_moe", "Qwen3MoeForCausalLM"),
        {**_DECODER, **_EXPERTS, "num_hidden_layers": 3, "mlp_only_layers": [1]},
    ),
    "no shared experts": (
        *("deepseek_v3", "DeepseekV3ForCausalLM"),
        {**_SIZES, **_LATENT, "n_shared_experts": 0, "first_k_dense_replace": 1},
    ),
    "decimal base": ("llama", "LlamaForCausalLM", {**_DECODER, "rope_parameters": _ROPE}),
    "answers": ("bert", "BertForQuestionAnswering", _SIZES),
    "answers, causal": ("gpt_neox", "GPTNeoXForQuestionAnswering", {**_SIZES, "rotary_pct": 0.5}),
    "answers, shared": ("albert", "AlbertForQuestionAnswering", {**_SIZES, "embedding_size": 6}),
    "discriminator": ("electra", "ElectraForPreTraining", {**_SIZES, "embedding_size": 16}),
    "narrow discriminator": ("electra", "ElectraForPreTraining", {**_SIZES, "embedding_size": 6}),
    "labels after a dense layer": (
        *("electra", "ElectraForSequenceClassification"),
        {**_SIZES, "embedding_size": 6},
    ),
}


def written(name: str, seed: int, folder: Path) -> Path:
    kind, head, keys = CASES[name]
    model = library_model({"model_type": kind, "architectures": [head], **keys}, seed)
    model.to(torch.float64).save_pretrained(folder)
    return folder


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(("seed", "name"), list(enumerate(CASES)))
def test_moved_copies_are_the_same_function(seed: int, name: str, tmp_path: Path) -> None:
    model = written(name, seed, tmp_path / "model")
    other = written(name, seed + 99, tmp_path / "other")
    move(model, tmp_path / "moved", seed=seed)
    canonical(model, tmp_path / "normal")
    canonical(tmp_path / "moved", tmp_path / "again")
    with Model.open(model) as found:
        tokens = random_tokens(found.spec, seed)
        wanted = outputs(found, tokens)
    for copy in ("moved", "normal"):
        with Model.open(tmp_path / copy) as found:
            assert furthest(wanted, outputs(found, tokens)) < 1e-10
        assert same(model, tmp_path / copy).verdict == "same function"
    assert same(tmp_path / "normal", tmp_path / "again").verdict in ("identical", "same function")
    assert same(model, other).verdict == "different"
    counted, asked = info(model).redundancy, architecture(model)
    assert counted is not None
    assert counted.upper == dimension_counted(asked).upper  # what `segre dim` says
