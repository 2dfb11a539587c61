"""The models of `segre demo`: what is said of them is what they are."""

from __future__ import annotations

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


def test_a_directory_that_exists_is_left_alone(models: Path) -> None:
    with pytest.raises(CheckpointError, match="it already exists"):
        demo(models)
    assert sorted(path.name for path in models.iterdir()) == sorted([*NAMES, "dialect.txt"])


def test_the_command_says_what_to_try(tmp_path: Path) -> None:
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0
    commands = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("  segre")]
    assert len(commands) == 3
    assert run(*commands[0], cwd=tmp_path).returncode == 0
