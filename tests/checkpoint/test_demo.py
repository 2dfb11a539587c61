"""The models of `segre model demo`: what is said of them is what they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from segre.analysis.diff import diff
from segre.checkpoint.commands import info, move, same
from segre.checkpoint.demo import NAMES, demo
from segre.errors import CheckpointError
from support.terminal import run


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo(tmp_path_factory.mktemp("demo") / "models").directory


def test_the_fine_tune_and_its_moved_copy_are_the_same_function(models: Path) -> None:
    assert same(models / "fine-tune", models / "moved").verdict == "same function"
    assert same(models / "base", models / "moved").verdict == "different"
    assert info(models / "base").parameters == 16_248


def test_moving_changes_every_matrix(models: Path) -> None:
    one, two = (load_file(models / name / "model.safetensors") for name in ("fine-tune", "moved"))
    for name, value in one.items():
        if value.ndim == 2:
            assert np.linalg.norm(value - two[name]) > 0.1 * np.linalg.norm(value), name


@pytest.mark.parametrize("other", ["fine-tune", "moved"])
def test_the_update_has_rank_two_moved_or_not(models: Path, other: str) -> None:
    found = diff(models / "base", models / other)
    assert found.low_rank == 2
    assert {update.part for update in found.changed} == {"2"}


@pytest.mark.parametrize("name", ["mlp.down_proj", "mlp.up_proj"])
def test_an_adapter_on_one_side_of_hidden_units_is_seen_in_a_moved_copy(
    models: Path, tmp_path: Path, name: str
) -> None:
    """Rescaled units would change the other side in all directions."""
    weights = load_file(models / "base" / "model.safetensors")
    key = f"model.layers.0.{name}.weight"
    rng = np.random.default_rng(0)
    rows, columns = weights[key].shape
    update = rng.standard_normal((rows, 3)) @ rng.standard_normal((3, columns))
    size = 0.2 * np.linalg.norm(weights[key]) / np.linalg.norm(update)
    tuned = tmp_path / "tuned"
    tuned.mkdir()
    changed = {**weights, key: weights[key] + (size * update).astype(np.float32)}
    save_file(changed, tuned / "model.safetensors", metadata={"format": "pt"})
    (tuned / "config.json").write_bytes((models / "base" / "config.json").read_bytes())
    move(tuned, tmp_path / "moved", report=False)
    found = diff(models / "base", tmp_path / "moved")
    assert found.low_rank == 3


def test_a_directory_that_exists_is_left_alone(models: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="it already exists"):
        demo(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert sorted(path.name for path in models.iterdir()) == sorted([*NAMES, "dialect.txt"])


def test_the_command_says_what_to_try(tmp_path: Path) -> None:
    done = run("model", "demo", cwd=tmp_path)
    assert done.returncode == 0
    commands = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("  segre")]
    assert len(commands) == 3
    assert run(*commands[0], cwd=tmp_path).returncode == 0


def test_the_second_demo_leaves_the_first_alone(models: Path, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in models.rglob("*") if file.is_file()}
    again = run("model", "demo", models)
    assert again.returncode == 0
    assert "nothing was written" in again.stdout
    assert {file: file.read_bytes() for file in models.rglob("*") if file.is_file()} == before
    other = demo(tmp_path / "other").directory
    weights = load_file(other / "base" / "model.safetensors")
    save_file(
        {name: 2 * value for name, value in weights.items()}, other / "base/model.safetensors"
    )
    refused = run("model", "demo", other)
    assert refused.returncode == 2
    assert "already exists" in refused.stderr


def in_type(models: Path, folder: Path, dtype: type) -> Path:
    """The base model, stored in another type."""
    shutil.copytree(models / "base", folder)
    weights = load_file(folder / "model.safetensors")
    rounded = {name: value.astype(dtype) for name, value in weights.items()}
    save_file(rounded, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_a_rounded_copy_is_called_rounding_and_not_gauge(models: Path, tmp_path: Path) -> None:
    half = in_type(models, tmp_path / "half", np.float16)
    found = same(models / "base", half)
    assert found.rounded
    assert found.sensitivity == (2**-10, 2**-10)  # what float16 keeps of a number
    shown = run("same", models / "base", half).stdout
    assert "lost in the rounding" in shown
    changes = run("diff", models / "base", half).stdout
    assert "no more than rounding" in changes
    assert "gauge;" not in changes
    assert "is gauge" not in changes


def test_what_rounding_hides_is_within_the_sensitivity(models: Path, tmp_path: Path) -> None:
    """A change of the float32 file below half a unit of float16 cannot be seen in its copy."""
    half = in_type(models, tmp_path / "half", np.float16)
    wide = in_type(models, tmp_path / "wide", np.float32)
    stored = load_file(half / "model.safetensors")
    hidden = {name: value.astype(np.float32) for name, value in stored.items()}
    save_file(hidden, wide / "model.safetensors", metadata={"format": "pt"})
    assert same(wide, half).verdict == "identical"
    nudged = {name: value * np.float32(1 + 2**-13) for name, value in hidden.items()}
    save_file(nudged, wide / "model.safetensors", metadata={"format": "pt"})
    found = same(wide, half)
    assert found.rounded
    assert found.sensitivity[0] > 2**-13


def test_unrelated_models_are_not_silently_compared(models: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(models / "base", other)
    weights = load_file(other / "model.safetensors")
    rng = np.random.default_rng(0)
    drawn = {k: rng.normal(size=v.shape).astype(v.dtype) * v.std() for k, v in weights.items()}
    save_file(drawn, other / "model.safetensors", metadata={"format": "pt"})
    assert "may be unrelated models" in run("diff", models / "base", other).stdout
    merged = run("model", "merge", models / "base", other, "-o", tmp_path / "merged")
    assert "may be unrelated" in merged.stdout
    assert "unrelated" not in run("diff", models / "base", models / "moved").stdout


def test_an_adapter_is_not_a_model(models: Path, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    save_file({"a": np.zeros(2)}, tmp_path / "adapter_model.safetensors")
    refused = run("same", models / "base", tmp_path)
    assert refused.returncode == 2
    assert "it is an adapter" in refused.stderr


def test_random_weights_are_called_random(models: Path) -> None:
    small = "llama/d=8/layers=1/heads=2/ff=8/vocab=20/t=8"
    for command in ("diagnose", "trace", "paths"):
        assert "random weights" in run("model", command, small).stdout.splitlines()[0]
        assert "random weights" not in run("model", command, models / "base").stdout.splitlines()[0]
