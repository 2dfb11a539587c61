"""What a config says beside the sizes: windows, scales, frequencies, activations, unknown keys.

bench/faults/configs.py tries changes of configs by the hundred; here is what is said of them, and
that every command keeps the function.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from bench.faults.configs import copied, scale_moved
from transformers import (
    BertConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from segre.checkpoint.commands import align, canonical, check, expand, move, same, shrink
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import outputs, random_tokens
from segre.errors import CheckpointError
from segre.models.registry import MODEL_TYPES, unknown_differences
from support.checkpoints import apart, furthest, library_outputs
from support.zoo import GPT2, SIZES, TWO, randomised, save_tiny

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 0.5,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
WIDE: dict[str, Any] = {**TWO, "head_dim": 8}
SLIDING = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}


def rope(kind: dict[str, Any]) -> dict[str, Any]:
    return {"rope_parameters": {"rope_theta": 100.0, **kind}}


MODELS: dict[str, tuple[Any, str]] = {
    "linear": (LlamaConfig(**WIDE, **rope({"rope_type": "linear", "factor": 3.0})), "Llama"),
    "llama3": (LlamaConfig(**WIDE, **rope(LLAMA3)), "Llama"),
    "window": (MistralConfig(**WIDE, sliding_window=4, hidden_act="quick_gelu"), "Mistral"),
    "qwen2": (Qwen2Config(**TWO, **SLIDING, **rope(YARN)), "Qwen2"),
    "qwen3": (
        Qwen3Config(**WIDE, **SLIDING, **rope({**YARN, "attention_factor": 1.5})),
        "Qwen3",
    ),
    "unscaled": (
        GPT2Config(**GPT2, scale_attn_weights=False, scale_attn_by_inverse_layer_idx=True),
        "GPT2",
    ),
    "bert": (BertConfig(**SIZES, hidden_act="quick_gelu"), "Bert"),
}
HEADS = {"GPT2": "GPT2LMHeadModel", "Bert": "BertForMaskedLM"}


def saved(name: str, directory: Path) -> Path:
    config, family = MODELS[name]
    kind = HEADS.get(family, f"{family}ForCausalLM")
    randomised(config, kind, list(MODELS).index(name)).save_pretrained(directory)
    return directory


@pytest.mark.parametrize("name", MODELS)
def test_every_command_keeps_the_function(name: str, tmp_path: Path) -> None:
    model = saved(name, tmp_path / "model")
    with Model.open(model) as opened:
        tokens = random_tokens(opened.spec, 3)
        assert furthest(library_outputs(model, tokens), outputs(opened, tokens)) < 1e-12
    move(model, tmp_path / "moved", seed=2)
    canonical(model, tmp_path / "canonical")
    align(model, tmp_path / "moved", tmp_path / "aligned")
    shrink(model, tmp_path / "small")
    expand(tmp_path / "small", tmp_path / "expanded")
    for other in ("moved", "canonical", "aligned", "expanded"):
        assert apart(model, tmp_path / other) < 1e-4, other
        assert same(model, tmp_path / other).verdict == "same function", other


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("mistral", {"sliding_window": 4}, "window is none and 4"),
        ("qwen2", {**SLIDING, "layer_types": None}, "window is none and 0,4,4"),
        ("llama", rope({"rope_type": "linear", "factor": 4}), "rescale is none and linear:4"),
        ("llama", {"rope_parameters": {"rope_theta": 500.0}}, "base is 10000 and 500"),
        ("gpt2", {"scale_attn_weights": False}, "scale is standard and 1"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "bylayer is false and true"),
        ("bert", {"hidden_act": "quick_gelu"}, "mlp is gelu and gelu-quick"),
    ],
)
def test_a_difference_of_configs_is_named(
    name: str, change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    model = save_tiny(name, tmp_path / "model")
    if name == "mistral":
        model = copied(model, tmp_path / "open", {"sliding_window": None})
    if "rope_parameters" in change and "factor" in change["rope_parameters"]:
        change = {"rope_parameters": {**change["rope_parameters"], "rope_theta": 10000.0}}
    other = copied(model, tmp_path / "other", change)
    for one, two in ((model, other), (other, model)):
        found = same(one, two)
        assert found.verdict == "different"
        if one is model:
            assert said in found.reason


def test_longrope_differs_in_short_inputs_or_in_long_ones(tmp_path: Path) -> None:
    """Whichever list, or the length between them, is another one; and not how it is said."""
    plain = save_tiny("llama", tmp_path / "plain")  # of 32 tokens, in heads of three planes
    how = {"rope_type": "longrope", "rope_theta": 10000.0, "factor": 1.0}
    how |= {"short_factor": [1.0, 1.5, 2.0], "long_factor": [3.0, 2.5, 2.0]}
    how["original_max_position_embeddings"] = 8
    model = copied(plain, tmp_path / "model", {"rope_parameters": how})
    for name, change in {
        "short": {"short_factor": [1.0, 1.5, 2.5]},
        "long": {"long_factor": [3.0, 2.5, 2.5]},
        "length": {"original_max_position_embeddings": 9},
    }.items():
        other = copied(model, tmp_path / name, {"rope_parameters": {**how, **change}})
        found = same(model, other)
        assert found.verdict == "different", name
        assert "rescale" in found.reason
    said = {"factor": 4.0, "attention_factor": 1.0}
    other = copied(model, tmp_path / "said", {"rope_parameters": {**how, **said}})
    assert same(model, other).verdict in ("identical", "same function")


def test_the_scale_of_scores_is_part_of_the_queries(tmp_path: Path) -> None:
    model = save_tiny("gpt2", tmp_path / "model")
    moved = scale_moved(model, tmp_path / "moved")
    found = same(model, moved)
    assert found.verdict == "same function"
    assert found.witness is not None
    found.witness.write(tmp_path / "witness.safetensors")
    for one, two in ((model, moved), (moved, model)):
        witness = same(one, two).witness
        assert witness is not None
        witness.write(tmp_path / "witness.safetensors")
        assert all(block.agrees for block in check(one, two, tmp_path / "witness.safetensors"))
    with pytest.raises(CheckpointError, match="scale is standard and 1"):
        align(model, moved, tmp_path / "aligned")


def test_the_amplitude_of_yarn_is_part_of_the_queries(tmp_path: Path) -> None:
    """The same frequencies with and without the factor, which the gains of queries make up for."""
    from safetensors.numpy import load_file, save_file

    model = saved("qwen3", tmp_path / "model")
    plain = copied(model, tmp_path / "plain", rope({**YARN, "attention_factor": 1.0}))
    assert same(model, plain).verdict == "different"
    tensors = load_file(plain / "model.safetensors")
    for name, value in tensors.items():
        if name.endswith("q_norm.weight"):
            value *= 1.5**2
    save_file(tensors, plain / "model.safetensors", {"format": "pt"})
    assert apart(model, plain) < 1e-4
    assert same(model, plain).verdict == "same function"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama", {"max_position_embeddings": 4096}),
        ("llama", {"rope_scaling": None, "mystery": None}),
        ("llama", rope({"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0})),
        ("mistral", {"sliding_window": 999}),
        ("mistral", {"sliding_window": None}),
        ("qwen3", {"sliding_window": 5}),
        (
            "gpt2",
            {"summary_type": "first", "attn_pdrop": 0.3, "activation_function": "gelu_accurate"},
        ),
    ],
)
def test_what_changes_nothing_is_identical(
    name: str, change: dict[str, Any], tmp_path: Path
) -> None:
    model = save_tiny(name, tmp_path / "model")
    assert same(model, copied(model, tmp_path / "other", change)).verdict == "identical"


def test_a_rescaling_beyond_one_context_and_within_the_other_is_seen(tmp_path: Path) -> None:
    model = save_tiny("llama", tmp_path / "model")
    dynamic = rope({"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0})
    short = copied(model, tmp_path / "short", {**dynamic, "max_position_embeddings": 8})
    found = same(model, short)
    assert (found.verdict, "dynamic:4:8" in found.reason) == ("different", True)


@pytest.mark.parametrize("change", [{"mystery": 1}, rope({"rope_theta": 10000.0, "mystery": 1})])
def test_unknown_keys_that_differ_are_undecided(change: dict[str, Any], tmp_path: Path) -> None:
    model = save_tiny("llama", tmp_path / "model")
    other = copied(model, tmp_path / "other", change)
    move(other, tmp_path / "moved")
    for two in (other, tmp_path / "moved"):
        found = same(model, two)
        assert found.verdict == "undecided"
        assert "mystery" in found.reason
    found = same(other, tmp_path / "moved")
    assert found.verdict == "same function"
    assert found.witness is not None
    found.witness.write(tmp_path / "witness.safetensors")
    with pytest.raises(CheckpointError, match="mystery"):
        check(model, tmp_path / "moved", tmp_path / "witness.safetensors")


def test_tied_tables_and_two_equal_tables_are_the_same(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    tied = save_tiny("llama-tied", tmp_path / "tied")
    untied = copied(tied, tmp_path / "untied", {"tie_word_embeddings": False})
    tensors = load_file(untied / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    save_file(tensors, untied / "model.safetensors", {"format": "pt"})
    found = same(tied, untied)
    assert (found.verdict, found.outputs) == ("same function", None)  # all values are equal
    assert "the first has a tied table" in found.reason
    tensors["lm_head.weight"] = 1.01 * tensors["lm_head.weight"]
    save_file(tensors, untied / "model.safetensors", {"format": "pt"})
    assert same(tied, untied).verdict == same(untied, tied).verdict == "different"


@pytest.mark.parametrize("family", MODEL_TYPES)
def test_every_key_of_the_library_is_known_or_irrelevant(family: str) -> None:
    written = json.loads(transformers.AutoConfig.for_model(family).to_json_string(use_diff=False))
    other = {key: [value, "other"] for key, value in written.items()}
    other |= {key: written[key] for key in ("model_type", "rope_parameters") if key in written}
    assert unknown_differences(written, other) == []
    assert unknown_differences(written, {**written, "mystery": 1}) == ["mystery"]
