"""Names of tensors in files: of other classes, and of language models within larger models."""

import json
import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from segre.checkpoint.commands import move, same
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import outputs, random_tokens
from segre.errors import CheckpointError
from segre.models.family import BEFORE
from segre.models.registry import MODEL_TYPES
from support.random_models import HEADS, library_model, random_config

TEXT = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma3_text", "phi3", "qwen3_moe", "opt")
IMAGES = ("vision_tower.encoder.weight", "multi_modal_projector.linear.weight")


def saved(model_type: str, seed: int, folder: Path) -> Path:
    """A random model of the library; a second copy of a tied table is left out."""
    config = random_config(model_type, Random(f"{model_type} {seed}"), HEADS[model_type][0])
    library_model(config, seed).save_pretrained(folder)
    return folder


def renamed(source: Path, target: Path, family: str, before: str, beside: bool = False) -> Path:
    """The same tensors under the names that a larger model gives them."""
    shutil.copytree(source, target)
    prefix = MODEL_TYPES[family].prefix
    tensors = {}
    for name, tensor in load_file(source / "model.safetensors").items():
        inside = name.startswith(prefix)
        whole = "language_model." if before.startswith("language_model.") else ""
        tensors[before + name.removeprefix(prefix) if inside else whole + name] = tensor
    if beside:
        tensors |= {name: np.zeros((2, 2)) for name in IMAGES}
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    return target


@pytest.mark.parametrize("model_type", TEXT)
def test_prefixes_change_nothing(model_type: str, tmp_path: Path) -> None:
    source = saved(model_type, 0, tmp_path / "source")
    with Model.open(source) as model:
        tokens = random_tokens(model.spec, 0)
        wanted = outputs(model, tokens)
    for number, before in enumerate(BEFORE):
        inside = "language_model." in before
        other = renamed(source, tmp_path / str(number), model_type, before, beside=inside)
        with Model.open(other) as model:
            assert np.array_equal(outputs(model, tokens), wanted)
            assert set(model.unused) == (set(IMAGES) if inside else set())


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    source = saved("llama", 1, tmp_path / "source")
    other = renamed(source, tmp_path / "other", "llama", "language_model.model.", beside=True)
    found = move(other, tmp_path / "moved", seed=1)
    assert set(found.unused) == set(IMAGES)
    assert same(source, tmp_path / "moved").verdict == "same function"
    config = json.loads((tmp_path / "moved" / "config.json").read_text())
    assert config["model_type"] == "llama"


def test_tensors_beside_a_plain_model_are_refused(tmp_path: Path) -> None:
    source = saved("llama", 2, tmp_path / "source")
    other = renamed(source, tmp_path / "other", "llama", "model.", beside=True)
    with pytest.raises(CheckpointError, match="multi_modal_projector"), Model.open(other):
        pass
