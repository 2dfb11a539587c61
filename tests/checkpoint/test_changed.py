"""A model whose files are written to as they are read is refused, and nothing is left of it."""

import os
from pathlib import Path
from random import Random

import pytest
from bench.faults.inputs import copied_over, overwritten
from bench.faults.outputs import tree

from segre.checkpoint.commands import canonical, move, same
from segre.checkpoint.example import example
from segre.checkpoint.model import Model
from segre.errors import CheckpointError


def _later(file: Path, _: Random) -> None:
    stamp = file.stat()
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))


def _other(file: Path, _: Random) -> None:
    new = file.with_name("new")
    new.write_bytes(file.read_bytes())
    new.replace(file)


@pytest.mark.parametrize("seed", range(30))
def test_a_change_at_any_moment_is_noticed(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    model = example(tmp_path / "model")
    other = example(tmp_path / "other", seed=1)
    change = rng.choice([copied_over, overwritten, _later, _other])
    file = model / rng.choice(["model.safetensors", "config.json"])
    command = rng.choice([move, canonical, same])
    names, moment, steps = set(tree(tmp_path)), rng.randrange(3), 0

    def progress(*_: object) -> None:
        nonlocal steps
        if steps == moment:
            (_later if file.suffix == ".json" else change)(file, rng)
        steps += 1

    second = other if command is same else tmp_path / "out"
    with pytest.raises(CheckpointError, match="changed while it was read"):
        command(model, second, progress=progress)
    assert steps > moment
    assert set(tree(tmp_path)) == names


def test_what_does_not_change_is_answered_and_what_is_removed_is_still_there(
    tmp_path: Path,
) -> None:
    model = example(tmp_path / "model")
    with Model.open(model) as opened:
        (model / "model.safetensors").unlink()
        assert opened.store.read(next(iter(opened.store.entries))).size


def test_zero_weights_with_a_report_are_written_and_a_failed_report_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.numpy import load_file, save_file

    model = example(tmp_path / "model")
    weights = load_file(model / "model.safetensors")
    zero = {name: 0 * value for name, value in weights.items()}
    save_file(zero, model / "model.safetensors", {"format": "pt"})
    assert move(model, tmp_path / "moved", report=True).difference == 0
    names = set(tree(tmp_path))

    def fail(*_: object) -> float:
        raise FloatingPointError("invalid value")

    monkeypatch.setattr("segre.checkpoint.commands.furthest", fail)
    with pytest.raises(CheckpointError, match=r"has no value in float64 \(invalid value\)"):
        move(model, tmp_path / "again", report=True)
    assert set(tree(tmp_path)) == names
