"""Model directories are written whole or not at all."""

import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segre.checkpoint.dtypes import FLOATS
from segre.checkpoint.folder import carry_along, new_directory
from segre.checkpoint.saving import TensorWriter
from segre.checkpoint.store import Entry, Store
from segre.errors import CheckpointError

SINGLE = "model.safetensors"


# --- the directory ----------------------------------------------------------------------------


def test_a_directory_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with new_directory(target) as folder:
        assert folder.parent == tmp_path
        assert folder.name.startswith(f".out.{os.getpid()}-")
        (folder / "sub").mkdir()
        (folder / "sub" / "a").write_text("a")
        assert not target.exists()
        number = folder.stat().st_ino
    assert target.stat().st_ino == number  # renamed, which is one step; not copied
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (target / "sub" / "a").read_text() == "a"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o777 & ~umask


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, CheckpointError])
def test_nothing_is_left_when_the_block_fails(tmp_path: Path, error: type) -> None:
    def fail() -> None:
        with new_directory(target) as folder:
            (folder / "a").write_text("a")
            raise error

    target = tmp_path / "out"
    target.mkdir()
    with pytest.raises(error):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not list(target.iterdir())


def test_targets_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (tmp_path / "file").write_text("kept")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "link").symlink_to(model)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    refused = {
        model: "it overlaps with the input .*choose another directory",
        model / "inside": "it overlaps with",
        tmp_path: "it overlaps with",
        tmp_path / "link" / "inside": "it overlaps with",
        tmp_path / "file": "it already exists; choose a new name",
        Path(): "it already exists; choose a new name",
        tmp_path / "none" / "out": "'.*none' is not an existing directory; create it",
        tmp_path / "file" / "out": "'.*file' is not an existing directory",
        tmp_path / "loop": "",
        Path("a\0b"): "not the name of a directory",
        tmp_path / ("x" * 300): "File name too long",
    }
    before = sorted(tmp_path.rglob("*"))
    for target, reason in refused.items():
        with (
            pytest.raises(CheckpointError, match=f"^cannot write .*: {reason}") as refusal,
            new_directory(target, [model]),
        ):
            pytest.fail("the block runs")
        assert "\n" not in str(refusal.value)
    with pytest.raises(CheckpointError, match="it already exists"), new_directory(model):
        pass
    assert sorted(tmp_path.rglob("*")) == before
    with new_directory(tmp_path / "model-2", [model]):  # a name that only begins alike
        pass
    with new_directory("../relative", [model]) as folder:
        (folder / "a").touch()
    assert (tmp_path / "relative" / "a").exists()


def test_a_parent_that_is_not_writable(own_directory: Path) -> None:
    own_directory.chmod(0o555)
    with (
        pytest.raises(CheckpointError, match=r"^cannot write .*: Permission denied$"),
        new_directory(own_directory / "out"),
    ):
        pytest.fail("the block runs")
    assert not list(own_directory.iterdir())


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """A limit on the size of files stands for a disk: writing fails in the middle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    plan = [
        Entry("small", FLOATS["F32"], (10,), SINGLE),
        Entry("large", FLOATS["F32"], (1_000_000,), SINGLE),
    ]

    def fill() -> None:
        with new_directory(tmp_path / "out") as folder, TensorWriter(folder, plan) as writer:
            writer.write("small", np.ones(10))
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
            writer.write("large", np.ones(1_000_000))

    try:
        with pytest.raises(CheckpointError, match=r"^cannot write '.*out': File too large$"):
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


# --- what is carried along --------------------------------------------------------------------


def test_everything_but_weights_is_carried_along(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "folder"
    kept = ["1_Pooling/config.json", "README.md", "config.json", "linked.json", "modules.json"]
    left = [
        *("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "a.PT"),
        *("pytorch_model.bin.index.json", "x.pth", "x.ckpt", "x.gguf", "tf_model.h5", "x.msgpack"),
        *("x.onnx", "rust_model.ot", "x.npz", "x.tflite", "x.zip", "onnx/config.json"),
        *("openvino/model.xml", ".git/config", ".cache/huggingface/x", "x.safetensors.partial"),
    ]
    for name in (*kept, *left):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    (source / "linked.json").unlink()
    (source / ".cache" / "blob").write_text("linked.json")
    (source / "linked.json").symlink_to(Path(".cache", "blob"))
    (source / "dangling.json").symlink_to(tmp_path / "none")
    (source / "round").symlink_to(source)
    os.mkfifo(source / "pipe")
    (source / "1_Pooling" / "config.json").chmod(0o400)
    folder.mkdir()
    assert carry_along(source, folder) == sorted(kept, key=lambda name: ("/" in name, name))
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*.*")) == kept
    for name in kept:
        assert not (folder / name).is_symlink()
        assert (folder / name).read_text() == name
        assert (folder / name).stat().st_mode & 0o200


def _file(source: Path, secret: Path) -> None:
    (source / "tokenizer.json").symlink_to(secret)


def _relative(source: Path, secret: Path) -> None:
    (source / "tokenizer.json").symlink_to(Path("..", "elsewhere", secret.name))


def _chain(source: Path, secret: Path) -> None:
    (source / "a.json").symlink_to(secret)
    (source / "tokenizer.json").symlink_to("a.json")


def _folder(source: Path, secret: Path) -> None:
    (source / "more").symlink_to(secret.parent)


def _through_folder(source: Path, secret: Path) -> None:
    (source / "more").mkdir()
    (source / "more" / "tokenizer.json").symlink_to(Path("..", "..", "elsewhere", secret.name))


def _beside(source: Path, secret: Path) -> None:
    """A directory whose name begins like ours is another one."""
    (source.parent / "source-more").mkdir()
    (source.parent / "source-more" / "x").write_text("secret")
    (source / "tokenizer.json").symlink_to(source.parent / "source-more" / "x")


def _not_a_cache(source: Path, secret: Path) -> None:
    (source.parent / "blobs").mkdir()
    (source.parent / "blobs" / "x").write_text("secret")
    (source / "tokenizer.json").symlink_to(Path("..", "blobs", "x"))


@pytest.mark.parametrize(
    "link", [_file, _relative, _chain, _folder, _through_folder, _beside, _not_a_cache]
)
def test_links_that_lead_away_are_refused(link: Any, tmp_path: Path) -> None:
    source, secret = tmp_path / "source", tmp_path / "elsewhere" / "secret.json"
    for path in (source / "config.json", secret):
        path.parent.mkdir()
        path.write_text("secret" if path == secret else "{}")
    link(source, secret)
    target = tmp_path / "target"
    with (
        pytest.raises(CheckpointError, match="outside the directory") as error,
        new_directory(target, [source]) as folder,
    ):
        carry_along(source, folder)
    assert "\n" not in str(error.value)
    assert not target.exists()
    assert not list(tmp_path.glob(".*")), "nothing is left"


@pytest.mark.parametrize("own", [True, False])
def test_the_cache_of_the_hub_is_made_of_links(own: bool, tmp_path: Path) -> None:
    """To blobs of the same repository; those of another one are not for this model to show."""
    repository = tmp_path / "models--us--tiny"
    snapshot = repository / "snapshots" / "0123abcd"
    blobs = (repository if own else tmp_path / "models--them--private") / "blobs"
    for folder in (snapshot / "1_Pooling", blobs, tmp_path / "out"):
        folder.mkdir(parents=True)
    (blobs / "aa").write_text("{}")
    place = os.path.relpath(blobs, snapshot)
    (snapshot / "config.json").symlink_to(Path(place, "aa"))
    (snapshot / "1_Pooling" / "config.json").symlink_to(Path("..", place, "aa"))
    (snapshot / "model.safetensors").symlink_to(Path(place, "weights"))
    if not own:
        with pytest.raises(CheckpointError, match="outside the directory"):
            carry_along(snapshot, tmp_path / "out")
        return
    assert carry_along(snapshot, tmp_path / "out") == ["config.json", "1_Pooling/config.json"]
    assert not (tmp_path / "out" / "config.json").is_symlink()


def test_a_file_that_cannot_be_copied_is_named(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.json").write_text("{}")
    (tmp_path / "folder").write_text("in the way")
    with pytest.raises(CheckpointError, match=r"a\.json': cannot be copied: File exists"):
        carry_along(tmp_path / "source", tmp_path / "folder")


# --- processes that die -----------------------------------------------------------------------

WRITE = """
import sys
import numpy as np
from pathlib import Path
from segre.checkpoint.dtypes import FLOATS
from segre.checkpoint.folder import carry_along, new_directory
from segre.checkpoint.saving import TensorWriter
from segre.checkpoint.store import Entry
source, target = map(Path, sys.argv[1:])
plan = [Entry(f"t{i}", FLOATS["BF16"], (i + 1, 20_000), f"{i % 3}.safetensors") for i in range(9)]
def say():
    print(flush=True)
    sys.stdin.readline()  # goes on when told to, or at once when nobody is there to tell
say()
with new_directory(target, [source]) as folder:
    say()
    carry_along(source, folder)
    with TensorWriter(folder, plan) as writer:
        for entry in plan:
            say()
            writer.write(entry.name, np.full(entry.shape, float(entry.shape[0])))
    say()
say()
"""
STEPS = 13


def run(source: Path, target: Path) -> Any:
    command = [sys.executable, "-c", WRITE, str(source), str(target)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


def is_complete(target: Path) -> bool:
    with Store.open(target) as store:
        assert store.config == {"a": 1}
        assert len(store.entries) == 9
        return all((store.read(n) == e.shape[0]).all() for n, e in store.entries.items())


def test_a_process_killed_at_any_moment_leaves_nothing_or_everything(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "config.json").write_text('{"a": 1}')
    chance = random.Random(0)
    broken = 0
    steps = [(step, False) for step in range(1, STEPS + 1)]
    for step, again in steps + [(STEPS - 1, True)] * 6:  # what comes then is syncing and renaming
        with run(source, target) as process:
            for _ in range(step - 1):
                assert process.stdout.readline() == b"\n"
                process.stdin.write(b"\n")
            assert process.stdout.readline() == b"\n"
            if step % 2 or again:  # somewhere after this step, else right at it
                process.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(chance.choice([0, 0.0005, 0.002, 0.004]))
            process.kill()
        assert process.returncode in (0, -signal.SIGKILL)
        left = [path for path in tmp_path.iterdir() if path.name.endswith(".partial")]
        assert len(left) <= 1, "what the process before left was not removed"
        broken += len(left)
        if target.exists():
            assert is_complete(target)
            shutil.rmtree(target)
    assert broken >= STEPS // 2
    with run(source, target) as process:
        process.communicate()
    assert process.returncode == 0
    assert is_complete(target)
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".partial")]


def test_only_leftovers_are_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    gone, alive = process.pid, os.getpid()
    stale = [f".out.{gone}-0123abcd.partial", f".out.{10**30}-0123abcd.partial"]
    others = [
        *(f".out.{alive}-0123abcd.partial", f".out2.{gone}-0123abcd.partial", "out.partial"),
        *(f".out.{gone}-0123abcd.partial.bak", f".out.{gone}-xyz.partial", ".out.partial"),
    ]
    for name in (*stale, *others):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").touch()
    (tmp_path / f".out.{gone}-00000000.partial").write_text("no directory")
    (tmp_path / f".out.{gone}-11111111.partial").symlink_to(tmp_path / "out.partial")
    with new_directory(tmp_path / "out") as first:
        assert not any((tmp_path / name).exists() for name in stale)
        assert all((tmp_path / name / "a").exists() for name in others)
        unseen = tmp_path / f".out.{gone}-22222222.partial"  # as if from another container
        first.rename(unseen)
        with new_directory(tmp_path / "out"):
            assert unseen.exists()
        unseen.rename(first)
        (tmp_path / "out").rmdir()
    assert len(list(tmp_path.iterdir())) == len(others) + 3
