"""A model is opened once: by every command, and by users, for all questions about it."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import segre
from segre.checkpoint.model import Model
from segre.errors import CheckpointError, SpecError
from support.checkpoints import save_tokenizer
from support.zoo import save_tiny, tiny

SPEC = "gpt2/d=16/layers=2/heads=2/ff=8/vocab=50/t=16"
_counting: list[Counter[str]] = []


def _count(event: str, arguments: Any) -> None:
    if event == "open" and _counting and isinstance(arguments[0], str):
        _counting[-1][arguments[0]] += 1


sys.addaudithook(_count)  # stays for good, and does nothing outside of `opens`


@contextmanager
def opens() -> Iterator[Counter[str]]:
    """How often each file is opened inside the block."""
    _counting.append(Counter())
    try:
        yield _counting[-1]
    finally:
        _counting.pop()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    one = save_tiny("llama", folder / "one")
    save_tokenizer(one, [f"w{n}" for n in range(40)])
    return one, segre.checkpoints.move(one, folder / "two", seed=1).directory


PARTS = ("what", "findings", "depth", "heads", "paths", "weights", "redundancy")
COMMANDS = {
    "analyze": lambda one, _two: segre.analyze(one, only=PARTS, inputs=1, length=8),
    "diagnose": lambda one, _two: segre.diagnose(one, length=8),
    "trace": lambda one, _two: segre.trace(one, length=4),
    "record": lambda one, _two: segre.record(one, length=4),
    "collapse": lambda one, _two: segre.collapse(one, inputs=1, length=8),
    "same": segre.checkpoints.same,
    "diff": segre.diff,
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_file_is_opened_once(name: str, models: tuple[Path, Path]) -> None:
    with opens() as found:
        COMMANDS[name](*models)
    own = {path: n for path, n in found.items() if path.startswith(str(models[0].parent))}
    read = models if name in ("same", "diff") else models[:1]
    for model in read:
        assert own[str(model / "config.json")] == own[str(model / "model.safetensors")] == 1
    assert set(own.values()) == {1}


@pytest.mark.parametrize("name", COMMANDS)
def test_opened_models_are_asked_without_opening_anything(
    name: str, models: tuple[Path, Path]
) -> None:
    with segre.open(models[0]) as one, segre.open(models[1]) as two:
        with opens() as found:
            said = COMMANDS[name](one, two)
        assert not [p for p in found if p.endswith((".safetensors", "config.json"))]
        np.testing.assert_equal(one.part("1"), one.part("1"))  # still open
    right = COMMANDS[name](*models)
    if name == "record":
        np.testing.assert_equal(dict(said), dict(right))
    else:
        ours, theirs = said.document(), right.document()
        for each in (ours, theirs):
            for part in each.get("parts", ()):
                part.pop("seconds")
        np.testing.assert_equal(ours, theirs)


def test_what_can_be_opened(models: tuple[Path, Path]) -> None:
    live = tiny("llama").float()
    for source in (models[0], str(models[0]), live, (live.state_dict(), live.config)):
        with segre.open(source) as model:
            assert repr(model).startswith("<Model: ")
            assert len(repr(model)) < 200
            assert repr(model).endswith("(llama), 3 layers of width 24, 16,920 parameters>")
            assert model.random is None
            assert segre.dimension(model).parameters == segre.dimension(source).parameters
    drawn = segre.open(SPEC, seed=3)
    assert "random weights (seed 3)" in repr(drawn)
    assert segre.diagnose(drawn, length=8).model["seed"] == 3
    found = segre.analyze(drawn, only=["what", "depth"], inputs=1, length=6)
    assert (found.name, found.weights, found["depth"].status) == (SPEC, False, "measured")
    for wrong in ("softmax/d=3,3/a=1/t=2", "llama/d=8/heads=2/ff=8/t=3"):
        with pytest.raises(segre.SegreError, match="vocabulary"):
            segre.open(wrong)
    with pytest.raises(SpecError, match="not a known name"):
        segre.open("nothing of this name")


def test_random_weights_are_no_checkpoint() -> None:
    drawn = segre.open(SPEC)
    with pytest.raises(CheckpointError, match="has random weights; give a checkpoint"):
        segre.checkpoints.same(drawn, drawn)


def test_a_model_is_closed_by_whoever_opened_it(tmp_path: Path) -> None:
    folder = save_tiny("gpt2", tmp_path / "model")
    with segre.open(folder) as model:
        with Model.open(model) as again:
            assert again.spec == model.spec
        model.part("1")
    with pytest.raises(CheckpointError, match="after the file was closed"):
        model.part("1")
    file = folder / "model.safetensors"
    with pytest.raises(CheckpointError, match="changed"), segre.open(folder):
        file.write_bytes(file.read_bytes()[:-8] + bytes(8))
