"""`segre model`: what users type, exit codes, one line for what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.terminal import run
from support.zoo import save_tiny


def segre(*arguments: object) -> Any:
    group = () if arguments[0] == "same" else ("model",)
    return run(*group, *arguments, columns=80)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny("llama", tmp_path_factory.mktemp("tiny") / "model")


def test_the_whole_story(model: Path, tmp_path: Path) -> None:
    canonical, moved, witness = (tmp_path / n for n in ("canonical", "moved", "w.safetensors"))
    done = segre("canonical", model, "-o", canonical, "--report")
    assert (done.returncode, done.stderr) == (0, "")
    assert "tensors changed" in done.stdout
    assert "rounding can explain" in done.stdout
    done = segre("move", model, "-o", moved, "--seed", 4, "--json")
    assert json.loads(done.stdout)["directory"] == moved.name

    done = segre("same", model, moved, "--witness", witness)
    assert done.returncode == 0
    assert done.stdout.startswith("same function")
    assert "read back and checked" in done.stdout
    assert segre("check", model, moved, witness).returncode == 0
    assert segre("check", model, canonical, witness).returncode == 1
    done = segre("same", canonical, canonical, "--json")
    assert json.loads(done.stdout)["verdict"] == "identical"

    done = segre("align", model, moved, "-o", tmp_path / "aligned")
    assert done.returncode == 0
    assert "whole model" in done.stdout

    done = segre("shrink", model, "-o", tmp_path / "small")
    assert "saved" in done.stdout
    assert segre("expand", tmp_path / "small", "-o", tmp_path / "again").returncode == 0
    assert segre("same", canonical, tmp_path / "again").returncode == 0

    done = segre("info", model, "--plot", tmp_path / "heads.png")
    assert done.returncode == 0
    assert (tmp_path / "heads.png").stat().st_size > 10_000
    measured = json.loads(segre("info", model, "--json").stdout)["measured"]
    assert len(measured["layers"]) == 3


def test_different_models(model: Path, tmp_path: Path) -> None:
    other = save_tiny("llama-mha", tmp_path / "other")
    done = segre("same", model, other)
    assert done.returncode == 1
    assert done.stdout.startswith("different")
    assert "2 key-value heads, compared as 4 with copies" in " ".join(done.stdout.split())


def test_what_is_wrong_is_said_in_one_line(model: Path, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").write_text("mine")
    (tmp_path / "pickle").mkdir()
    (tmp_path / "pickle" / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "pickle" / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    cases = [
        ("canonical", tmp_path / "none", "-o", tmp_path / "out"),
        ("canonical", model, "-o", full),
        ("canonical", model, "-o", model),
        ("canonical", model, "-o", model / "inside"),
        ("canonical", tmp_path / "pickle", "-o", tmp_path / "out"),
        ("same", model, tmp_path / "none"),
        ("check", model, model, tmp_path / "none"),
        ("expand", model, "-o", tmp_path / "out"),
        ("info", model, "--plot", tmp_path / "plot.xyz"),
        ("convert", model / "config.json", "-o", tmp_path / "out"),
        ("move", model),
    ]
    before = (model / "model.safetensors").read_bytes()
    for case in cases:
        done = segre(*case)
        assert done.returncode == 2, case
        assert done.stdout == ""
        assert done.stderr.startswith("segre: ")
        assert done.stderr.count("\n") == 1
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "out").exists()
    assert (model / "model.safetensors").read_bytes() == before
    assert [path.name for path in full.iterdir()] == ["file"]
