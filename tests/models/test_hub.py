"""Models of the Hugging Face hub: found in the local cache, or said in one line how to fetch."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import segre
from segre.checkpoint.example import example
from segre.errors import CheckpointError, SpecError
from segre.models import PRESETS, architecture
from segre.models.names import cache, snapshot
from support.terminal import run

NAME = "some-org/Tiny-Llama.v1"
REVISION = "0123456789abcdef0123456789abcdef01234567"
Cached = Callable[..., Path]


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cached:
    """A cache as the hub's library lays it out: blobs, and snapshots made of links to them."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HOME", raising=False)

    def put(
        name: str = NAME, *, weights: bool = True, main: bool = True, revision: str = REVISION
    ) -> Path:
        repository = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        folder = repository / "snapshots" / revision
        folder.mkdir(parents=True)
        (repository / "blobs").mkdir(exist_ok=True)
        model = example(tmp_path / f"{revision[:4]}-model")
        for file in model.iterdir():
            if file.name == "config.json" or weights:
                blob = repository / "blobs" / f"{revision[:4]}{file.name}"
                file.rename(blob)
                (folder / file.name).symlink_to(Path("../../blobs") / blob.name)
        if main:
            (repository / "refs").mkdir(exist_ok=True)
            (repository / "refs" / "main").write_text(revision)
        return folder

    return put


def refusal(source: str) -> str:
    with pytest.raises(SpecError) as caught:
        architecture(source)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    return line


def test_a_model_in_the_cache_is_meant_by_its_id(cached: Cached, tmp_path: Path) -> None:
    folder = cached()
    spec = architecture(folder)
    for name in (NAME, NAME.lower(), Path(NAME)):
        assert architecture(name) == spec
    assert segre.dimension(NAME, "count").parameters == spec.parameters
    assert segre.explain(NAME).name == NAME
    info = segre.checkpoints.info(NAME)
    assert (info.parameters, info.name) == (spec.parameters, NAME)
    assert segre.checkpoints.same(NAME, folder).verdict == "identical"
    moved = segre.checkpoints.move(NAME, tmp_path / "moved", seed=1)
    assert segre.checkpoints.same(NAME, moved).verdict == "same function"
    depth = segre.collapse.measure(NAME, inputs=1, length=4, variants="full")
    assert depth.document()["weights"] == "trained"
    assert segre.analyze(NAME, only=["weights"])["weights"].status == "measured"


def test_a_config_alone_is_an_architecture(cached: Cached) -> None:
    cached(weights=False)
    assert architecture(NAME).layers == 2
    with pytest.raises(CheckpointError, match=f"its weights are not in .*hf download {NAME}$"):
        segre.checkpoints.info(NAME)


def test_a_single_revision_is_meant_where_there_is_no_main(cached: Cached) -> None:
    first = cached(main=False)
    assert snapshot(NAME) == first
    cached(main=False, revision="f" * 40)
    assert "2 revisions" in refusal(NAME)
    with pytest.raises(CheckpointError, match="2 revisions"):
        segre.checkpoints.info(NAME)


def test_what_lies_on_the_disk_goes_first(
    cached: Cached, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached()
    cached("gpt2", revision="a" * 40)
    folder = tmp_path / "here" / NAME
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(PRESETS["llama-3-8b"]))
    monkeypatch.chdir(tmp_path / "here")
    assert architecture(NAME) == architecture("llama-3-8b")
    assert architecture("gpt2").parameters == 124_439_808  # the preset
    assert segre.checkpoints.info("gpt2").family == "llama"  # weights: the one in the cache


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "google/t5-small"])
def test_what_is_not_there_is_said_with_what_to_download(name: str, cached: Cached) -> None:
    cached()
    line = refusal(name)
    assert f"hf download {name}" in line
    assert "segre downloads nothing" in line
    for ask in (segre.checkpoints.info, segre.analyze, segre.collapse.measure):
        with pytest.raises(segre.SegreError, match=f"hf download {name}") as caught:
            ask(name)
        assert caught.value.exit_code == 2


def test_the_command_line_says_it_in_one_line(cached: Cached) -> None:
    cached()
    ended = run("model", "info", "meta-llama/Llama-3.1-8B")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "hf download meta-llama/Llama-3.1-8B" in ended.stderr


@pytest.mark.parametrize("revision", ["../../elsewhere", "", "0" * 500, "a/b"])
def test_a_damaged_cache_is_no_model(revision: str, cached: Cached) -> None:
    folder = cached()
    (folder.parents[1] / "refs" / "main").write_text(revision)
    if revision:
        assert snapshot(NAME) is None
        refusal(NAME)
    else:
        assert snapshot(NAME) == folder


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for key in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache() == tmp_path / ".cache" / "huggingface" / "hub"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache() == tmp_path / "x" / "huggingface" / "hub"
    monkeypatch.setenv("HF_HOME", "~/hf")
    assert cache() == tmp_path / "hf" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert cache() == tmp_path / "hub"


def test_a_single_file_of_weights(tmp_path: Path) -> None:
    model = example(tmp_path / "model")
    file = model / "mine.safetensors"
    next(model.glob("*.safetensors")).rename(file)
    (model / "model.safetensors").write_bytes(b"something else")
    (model / "notes.md").write_text("not part of the model")
    assert architecture(file) == architecture(model / "config.json")
    assert segre.checkpoints.info(file).parameters == architecture(file).parameters
    moved = segre.checkpoints.move(file, model / "moved", seed=2)
    assert moved.agrees
    assert segre.checkpoints.same(file, moved).verdict == "same function"
    assert sorted(path.name for path in (model / "moved").iterdir()) == [
        "config.json",
        "mine.safetensors",
        "model.safetensors.index.json",
    ]
    (model / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"config.json is missing"):
        segre.checkpoints.info(file)
    with pytest.raises(SpecError):
        architecture(file)
