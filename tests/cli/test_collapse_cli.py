"""`segre model collapse` and `paths`: what users type, and one line for what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.terminal import run
from support.zoo import save_tiny

STACK = "softmax/d=12,12,12,12,12,12/a=6/heads=2/t=5"


def segre(*arguments: object) -> Any:
    return run(*arguments, columns=80)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny("bert", tmp_path_factory.mktemp("tiny") / "model")


def test_a_stack_past_the_floor(tmp_path: Path) -> None:
    done = segre("model", "collapse", STACK, "--certify", "--plot", tmp_path / "plot.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Collapses without skips" in done.stdout
    assert (tmp_path / "plot.png").stat().st_size > 10_000
    found = json.loads(segre("model", "collapse", STACK, "--certify", "--json").stdout)
    ours, proved = found["log10"]["residual"][0], found["certified"]
    assert ours == pytest.approx(proved, rel=1e-9)
    assert not any(any(row) for row in exceeded(found))


def exceeded(found: dict[str, Any]) -> list[list[bool]]:
    """Where the theorem applies, and more than its step is measured."""
    bounds = found["bounds"]
    return [
        [there and after > step + 1e-9 for there, after, step in zip(a, m[1:], s, strict=True)]
        for a, m, s in zip(bounds["applies"], bounds["measured"], bounds["step"], strict=True)
    ]


def test_a_model_and_its_variants(model: Path, tmp_path: Path) -> None:
    done = segre(
        "model", "collapse", model, "--inputs", 2, "--length", 9, "--plot", tmp_path / "plot.svg"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Skips prevent collapse" in done.stdout
    assert max(map(len, done.stdout.splitlines()[2:9])) <= 80
    found = json.loads(
        segre("model", "collapse", model, "--inputs", 2, "--length", 9, "--ranks", "--json").stdout
    )
    assert len(found["curves"]) == 8
    assert {"rank", "stable_rank", "cosine", "spectrum"} <= set(found["curves"][0])
    chosen = segre(
        "model", "collapse", model, "--variants", "full,attention", "--length", 9, "--json"
    )
    assert [c["variant"] for c in json.loads(chosen.stdout)["curves"]] == ["full", "attention"]


def test_paths(model: Path, tmp_path: Path) -> None:
    done = segre("model", "paths", model, "--sample", 2, "--plot", tmp_path / "paths.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert "125 paths" in done.stdout  # four heads or the skip, in three layers
    found = json.loads(segre("model", "paths", model, "--mlp", "--norm", "--json").stdout)
    assert found["identity"] < 1e-12
    assert json.loads(segre("model", "paths", STACK, "--json").stdout)["identity"] < 1e-12
    shares = json.loads(segre("model", "paths", "gpt2", "--shares", "--json").stdout)["shares"]
    assert round(shares[12], 4) == 0.3827


def test_what_is_wrong_is_said_in_one_line(model: Path, tmp_path: Path) -> None:
    cases = [
        ("model", "collapse", tmp_path / "none"),
        ("model", "collapse", model, "--variants", "nothing"),
        ("model", "collapse", model, "--length", 1000),
        ("model", "paths", "lightning/d=3,3/a=1/t=2"),
        ("model", "collapse", "llama-3-8b"),
        ("model", "collapse", model, "--plot", tmp_path / "plot.xyz"),
        ("model", "paths", model, "--sample", 1, "--of-length", 7),
    ]
    for case in cases:
        done = segre(*case)
        assert done.returncode == 2, (case, done.stdout, done.stderr)
        assert done.stdout == ""
        assert done.stderr.startswith("segre: ")
        assert done.stderr.count("\n") == 1
