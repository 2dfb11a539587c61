"""One model in several forms of files: padded vocabularies, experts together or one by one."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from segre.checkpoint.commands import apply, check, info, move, same
from segre.checkpoint.model import Model
from segre.checkpoint.one_form import in_one_form
from segre.errors import CheckpointError
from support.checkpoints import padded
from support.terminal import run
from support.zoo import save_tiny

PADDED = ("llama", "llama-tied", "gpt2", "bert-mlm", "bert", "gemma2", "roberta-mlm", "opt")


@pytest.mark.parametrize("name", PADDED)
def test_padded_vocabularies_are_compared_on_the_tokens_that_both_have(
    name: str, tmp_path: Path
) -> None:
    one = save_tiny(name, tmp_path / "one")
    more = padded(one, tmp_path / "more", 3)
    for pair in ((one, more), (more, one)):
        found = same(*pair)
        assert (found.verdict, found.tokens) == ("same on common tokens", 61)
        assert found.said == "same on the first 61 tokens"
        assert found.same
        assert "64" in found.reason
    move(more, tmp_path / "moved", seed=1, report=False)
    found = same(one, tmp_path / "moved")
    assert found.verdict == "same on common tokens"
    assert found.status == "measured"
    assert found.witness is not None
    found.witness.write(tmp_path / "witness.safetensors")
    assert check(one, tmp_path / "moved", tmp_path / "witness.safetensors").value


def test_a_change_before_the_padding_is_found(tmp_path: Path) -> None:
    one = save_tiny("llama", tmp_path / "one")
    more = padded(one, tmp_path / "more", 3, value=0.5)
    assert same(one, more).verdict == "same on common tokens"  # whatever the padding holds
    tensors = load_file(more / "model.safetensors")
    table = np.array(tensors["model.embed_tokens.weight"])
    table[60] *= 1.5
    save_file({**tensors, "model.embed_tokens.weight": table}, more / "model.safetensors")
    found = same(one, more)
    assert (found.verdict, found.tokens) == ("different", 61)
    assert found.reason.startswith(
        "vocabularies of 61 and 64 tokens, of which the first 61 are compared: "
    )


def test_the_command_says_so(tmp_path: Path) -> None:
    one = save_tiny("llama-tied", tmp_path / "one")
    more = padded(one, tmp_path / "more", 3)
    done = run("same", one, more)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("same on the first 61 tokens\n")
    said = json.loads(run("same", one, more, "--json").stdout)
    assert (said["verdict"], said["tokens"]) == ("same on common tokens", 61)


# --- experts --------------------------------------------------------------------------------------


def together(source: Path, target: Path) -> Path:
    """A copy with all experts of a layer in one tensor, as the library has them in memory."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(source)
    model = getattr(transformers, config.architectures[0]).from_pretrained(source)
    target.mkdir()
    (target / "config.json").write_text((source / "config.json").read_text())
    tensors = {key: x.numpy() for key, x in model.state_dict().items()}
    save_file(tensors, target / "model.safetensors")
    return target


@pytest.mark.parametrize("name", ["mixtral", "qwen3-moe", "deepseek-v3"])
def test_experts_one_by_one_and_together(name: str, tmp_path: Path) -> None:
    one = save_tiny(name, tmp_path / "one")
    two = together(one, tmp_path / "two")
    with Model.open(one) as a, Model.open(two) as b:
        assert a.held != b.held
        first, second, _ = in_one_form(a, b)
        for part in a.parts:
            ours, theirs = first.part(part), second.part(part)
            assert all(np.array_equal(ours[key], x) for key, x in a.part(part).items())
            assert all(np.array_equal(ours[key], theirs[key]) for key in ours)
    assert same(one, two).verdict == same(two, one).verdict == "identical"
    move(two, tmp_path / "moved", seed=1, report=False)
    found = same(one, tmp_path / "moved")
    assert found.verdict == "same function"
    assert found.witness is not None
    found.witness.write(tmp_path / "witness.safetensors")
    assert check(one, tmp_path / "moved", tmp_path / "witness.safetensors").value
    mine = {key: np.zeros_like(x) for key, x in load_file(two / "model.safetensors").items()}
    config = json.loads((two / "config.json").read_text())
    apply((mine, config), one)
    assert same((mine, config), two).verdict == "identical"


# --- quantised files ------------------------------------------------------------------------------

EXPERTS = "model.layers.0.mlp.experts.gate_up_proj"
QUERIES = "model.layers.0.self_attn.q_proj"
QUANTISED = {
    "mxfp4": ("gpt-oss", {f"{EXPERTS}_blocks": np.uint8, f"{EXPERTS}_scales": np.uint8}),
    "gptq": ("llama", {f"{QUERIES}.qweight": np.int32, f"{QUERIES}.qzeros": np.int32}),
    "awq": ("llama", {f"{QUERIES}.qweight": np.int32, f"{QUERIES}.scales": np.float16}),
    "bitsandbytes": ("llama", {f"{QUERIES}.SCB": np.float32}),
    "fp8": ("llama", {f"{QUERIES}.weight_scale_inv": np.float32}),
}


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("method", QUANTISED)
def test_quantised_weights_are_refused_in_one_line(method: str, said: bool, tmp_path: Path) -> None:
    name, more = QUANTISED[method]
    model = save_tiny(name, tmp_path / "model")
    tensors = load_file(model / "model.safetensors")
    tensors.pop(next(iter(more)).removesuffix("_blocks"), None)
    extra = {key: np.zeros((4, 4), dtype) for key, dtype in more.items()}
    save_file({**tensors, **extra}, model / "model.safetensors")
    if said:
        config = json.loads((model / "config.json").read_text())
        config["quantization_config"] = {"quant_method": method}
        (model / "config.json").write_text(json.dumps(config))
    for command in (info, move):
        with pytest.raises(CheckpointError, match="its weights are quantised") as caught:
            command(model)
        assert "\n" not in str(caught.value)
        assert min(more) in str(caught.value) or max(more) in str(caught.value)
        if said:
            assert method in str(caught.value)


def test_quantised_weights_at_the_command_line(tmp_path: Path) -> None:
    model = save_tiny("llama", tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (model / "config.json").write_text(json.dumps(config))
    done = run("model", "info", model)
    assert done.returncode == 2
    assert "its weights are quantised" in done.stderr.replace("\n", " ")
    assert run("dim", model, "--method", "count").returncode == 0  # the config is enough for that
