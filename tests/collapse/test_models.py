"""Which model is meant, and how it is read: names, directories, what is refused."""

import json
import logging
import shutil
import socket
import subprocess
import sys
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForSequenceClassification

from segre.checkpoint.inputs import longest, random_tokens, vocabulary
from segre.checkpoint.model import Model
from segre.checkpoint.runnable import load
from segre.collapse.curves import curves
from segre.collapse.record import record
from segre.collapse.variants import ALL, FULL
from segre.errors import CheckpointError, SegreError, SpecError, TooLargeError, UnsupportedError
from segre.fields import Real
from segre.models import PRESETS, architecture
from segre.transformer.drawn import DEVIATION, Drawn
from segre.transformer.forward import Tokens, outputs
from segre.transformer.tensors import parts, tensors
from support.checkpoints import minilm
from support.small_models import CONFIGS, FAMILIES, library, small, states, tokens
from support.zoo import NAMES, save_tiny

INLINE = [
    "bert/d=8/layers=2/heads=2/ff=12/eps=1e-12/vocab=11/t=6",
    "albert/d=8/layers=2/heads=2/ff=12/eps=1e-12/embed=4/vocab=11/t=6",
    "gpt2/d=8/layers=2/heads=2/eps=1e-5/norm=rms/vocab=11/t=6",
    "llama/d=8/layers=2/heads=2/ff=12/bias=all/base=500000/vocab=11/t=6/tied=true",
    "gemma2/d=8/layers=2/heads=4/kv=2/ff=12/head=4/eps=1e-5/vocab=11/t=6",
    "qwen3/d=8/layers=2/heads=4/kv=2/ff=12/head=6/eps=1e-6/vocab=11/t=6",
    "transformer/d=8/layers=2/heads=2/vocab=11/t=6",
]


def saved(family: str, folder: Path) -> Path:
    """A model of the library as a directory, in float32."""
    deepcopy(library(family)).float().save_pretrained(folder)
    return folder


def weights(loaded: Model) -> dict[str, np.ndarray]:
    found = {}
    for part in parts(loaded.spec):
        found |= {f"{part}.{name}": x for name, x in loaded.part(part).items()}
    return found


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(
        np.allclose(left[key], right[key], rtol=1e-15, atol=0) for key in left
    )


# --- what is meant ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", INLINE)
def test_an_inline_spec_means_random_weights_of_it(text: str) -> None:
    spec, loaded = architecture(text), load(text)
    assert loaded.spec == spec.trunk()
    assert (loaded.spec.layers, loaded.spec.d, vocabulary(loaded.spec)) == (2, 8, 11)
    assert longest(loaded.spec) == (6 if spec.pos == "learned" else None)
    assert loaded.family == text.partition("/")[0]
    curves(loaded, random_tokens(loaded, 2, 5), ALL)


def test_every_preset_can_be_run_if_it_fits() -> None:
    for name, config in PRESETS.items():
        try:
            assert load(name).family == config["model_type"].replace("-", "_")
        except TooLargeError:
            assert architecture(name).parameters > 10**9


def test_a_directory_means_its_weights_and_a_config_random_ones(tmp_path: Path) -> None:
    folder = saved("gpt2", tmp_path / "model")
    trained, random = load(folder), load(folder / "config.json", seed=3)
    assert same(weights(trained), weights(small("gpt2")))
    assert (trained.random, random.random) == (None, 3)
    assert trained.document()["weights"] == "trained"
    assert not same(weights(random), weights(trained))
    (folder / "model.safetensors").unlink()
    assert same(weights(load(folder, 3)), weights(random))
    assert load(folder).folder == load(folder / "config.json").folder == folder


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_read_back(family: str, tmp_path: Path) -> None:
    loaded, ids = load(saved(family, tmp_path / "model")), tokens()
    assert loaded.spec.parameters == small(family).spec.parameters
    right = states(family, ids)[-1]
    for dtype, close in ((np.float64, 1e-10), (np.float32, 1e-5)):
        found = outputs(loaded, Tokens(ids), Real(dtype)).swapaxes(1, 2)
        assert np.abs(found - right).max() < close * np.abs(right).max()


@pytest.mark.parametrize("name", NAMES)
def test_models_with_heads_are_read_without_them(name: str, tmp_path: Path) -> None:
    loaded = load(save_tiny(name, tmp_path / "model"))
    assert loaded.spec.output == "hidden"
    assert record(loaded, [1, 2, 3], FULL).output.shape == (3, 24)


def test_classes_that_specs_do_not_know_are_read_without_their_heads(tmp_path: Path) -> None:
    config = {key: value for key, value in CONFIGS["bert"].items() if key != "model_type"}
    BertForSequenceClassification(BertConfig(**config)).save_pretrained(tmp_path / "model")
    assert load(tmp_path / "model").spec.parameters == small("bert").spec.parameters


def test_half_precision_is_read_in_single(tmp_path: Path) -> None:
    folder = saved("llama", tmp_path / "model")
    file = folder / "model.safetensors"
    half = {name: weight.bfloat16() for name, weight in load_file(file).items()}
    save_file(half, file, {"format": "pt"})
    found = load(folder).part("2", ["W_up", "norm1.gain"], np.float32)
    assert np.array_equal(found["W_up"], half["layers.1.mlp.up_proj.weight"].float().numpy())
    assert {x.dtype for x in found.values()} == {np.dtype(np.float32)}


# --- random weights --------------------------------------------------------------------------


@pytest.mark.parametrize("text", INLINE)
def test_random_weights_are_drawn_tensor_by_tensor(text: str) -> None:
    spec = architecture(text).trunk()
    one = Drawn(spec, 4)
    for (part, name), slot in tensors(spec).items():
        value = one.part(part, [name])[name]
        assert value.shape == slot.shape
        assert np.array_equal(value, one.part(part)[name])
        assert np.array_equal(value, one.part(part, None, np.float32)[name])
        assert len(np.unique(Drawn(spec, 5).part(part)[name] == value)) == 1
        if name in ("tokens", "positions", "types"):
            which = np.array([2, 0, 0]) % slot.shape[1]
            assert np.array_equal(one.columns(name, which), value[:, which])
    assert np.array_equal(one.part("1")["W_V"], Drawn(spec, 4).part("1")["W_V"])
    other = Drawn(spec, 5).part("1")
    assert not np.array_equal(one.part("1")["W_V"], other["W_V"])
    if not spec.share:
        assert not np.array_equal(one.part("2")["W_V"], one.part("1")["W_V"])


def test_random_weights_are_like_those_of_the_library() -> None:
    w = Drawn(architecture("bert/d=64/layers=1/heads=4/ff=128/vocab=500/t=16").trunk(), 1).part("1")
    for name, value in w.items():
        if name.startswith("W_"):
            assert value.std() == pytest.approx(DEVIATION, rel=0.05)
            assert abs(value.mean()) < 0.001
        else:
            assert set(value.ravel()) == {1.0 if name.endswith(".gain") else 0.0}


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"model_type": "t5"}, SegreError, "'t5'"),
        ({"model_type": "xlnet"}, UnsupportedError, "relative positions with two streams"),
        ({"model_type": "bert", "add_cross_attention": True}, SegreError, "add_cross"),
        ({"model_type": "albert", "num_hidden_groups": 2}, SegreError, "num_hidden_groups"),
        ({"model_type": "bert", "hidden_size": 7}, SpecError, "num_attention_heads"),
        ({"model_type": "bert", "hidden_size": "wide"}, SpecError, "hidden_size"),
        ({"model_type": "bert", "num_hidden_layers": 10**9}, SpecError, "num_hidden_layers"),
        ("softmax/d=2,2/a=1/t=2", UnsupportedError, "a stack of attention layers"),
        ("transformer/d=4", SpecError, "vocab"),
        ("gpt2/d=8/heads=2", SpecError, "vocab"),
        ({"kind": "gpt2"}, SpecError, "d is missing"),
        ({}, SpecError, "kind is missing"),
        ("qwen9", SpecError, "not a known name"),
        ("llama", SpecError, "d is missing"),
        ("/nowhere/at/all", SpecError, "not a known name"),
        ("/nowhere/config.json", SpecError, "No such file"),
        ("a\0b", SpecError, "not a known name"),
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


def test_what_does_not_fit_is_refused_before_it_is_allocated(tmp_path: Path) -> None:
    with pytest.raises(TooLargeError, match=r"69,503,033,344 parameters; .* need 258\.9 GiB, over"):
        load("llama-3-70b")
    with pytest.raises(TooLargeError, match="over the limit"):
        load(CONFIGS["bert"], memory=1000)
    with pytest.raises(TooLargeError, match="the weights of one sub-layer"):
        load(saved("bert", tmp_path / "model"), memory=1000)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_weights_that_are_not_finite_are_named(tmp_path: Path, value: float) -> None:
    folder = saved("qwen2", tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    name = next(key for key in tensors if "v_proj.weight" in key)
    tensors[name] = tensors[name].double()
    tensors[name][0, 0] = value
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    loaded = load(folder)
    with pytest.raises(
        CheckpointError, match=r"tensor 'layers.*v_proj.*' is (nan|inf) at \[0, 0\]"
    ):
        curves(loaded, random_tokens(loaded, 1, 4), [FULL])


def test_missing_and_misshapen_tensors_are_refused(tmp_path: Path) -> None:
    folder = saved("gpt2", tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    name = next(key for key in tensors if "c_proj.weight" in key)
    whole = tensors.pop(name)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match="is missing"):
        load(folder)
    save_file(tensors | {name: whole[:-1]}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"but config\.json requires"):
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
    with pytest.raises(SegreError, match="quantization_config"):
        load(folder)


# --- manners ---------------------------------------------------------------------------------


def test_a_model_is_run_without_torch_and_transformers(tmp_path: Path) -> None:
    folder = saved("llama", tmp_path / "model")
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None;"
        "from segre.cli import main; sys.argv = ['segre', *sys.argv[1:]]; main()"
    )
    for arguments in (
        ("model", "collapse", folder, "--length", "6"),
        ("model", "paths", folder, "--length", "6"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "model" in done.stdout


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


def test_a_real_model_is_that_of_the_library_and_left_alone(tmp_path: Path) -> None:
    from transformers import AutoModel

    shutil.copytree(minilm(), tmp_path / "model")
    before = {path: path.read_bytes() for path in (tmp_path / "model").rglob("*.json")}
    loaded = load(tmp_path / "model")
    assert (loaded.spec.layers, loaded.spec.d, loaded.spec.heads) == (6, 384, 12)
    ids = np.random.default_rng(0).integers(vocabulary(loaded.spec), size=(2, 40))
    model = AutoModel.from_pretrained(minilm(), attn_implementation="eager").double().eval()
    with torch.inference_mode():
        out = model(input_ids=torch.tensor(ids), output_attentions=True)
    right = out.last_hidden_state.numpy()
    for dtype, close in ((np.float64, 1e-10), (np.float32, 1e-5)):
        found = outputs(loaded, Tokens(ids), Real(dtype)).swapaxes(1, 2)
        assert np.abs(found - right).max() < close * np.abs(right).max()
    done = record(loaded, ids, FULL)
    for layer, theirs in zip(done.layers, out.attentions, strict=True):
        assert np.abs(layer.P - theirs.numpy()).max() < 1e-10
    assert before == {path: path.read_bytes() for path in (tmp_path / "model").rglob("*.json")}
