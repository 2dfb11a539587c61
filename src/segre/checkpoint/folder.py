"""Writing a model directory, completely or not at all.

Everything goes to a temporary directory beside the target, which is renamed when it is complete.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from segre.checkpoint.reading import refusal
from segre.checkpoint.writer import TensorWriter
from segre.errors import CheckpointError
from segre.files import placed

__all__ = ["TensorWriter", "carry_along", "new_directory"]

WEIGHT_FILES = (
    *(".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth", ".ckpt"),
    *(".gguf", ".h5", ".h5.index.json", ".msgpack", ".msgpack.index.json", ".onnx", ".onnx_data"),
    *(".ot", ".npz", ".tflite", ".zip", ".partial"),
)
OTHER_FOLDERS = {"onnx", "openvino", ".git", ".cache"}


@contextmanager
def new_directory(target: str | Path, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """A temporary directory beside `target`, renamed to `target` when the block ends well.

    If the block fails, nothing is left of it; if the process is killed, the next call for the
    same target removes what was left. `target` must be new or an empty directory, and must not
    overlap with `inputs`.
    """
    given = Path(target)
    try:
        path = _require_new(given, inputs)
        _remove_leftovers(path)
        temporary = path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial"
        try:
            temporary.mkdir()
            with _locked(temporary):
                yield temporary
                _sync(temporary)
                placed.append(given)
                temporary.rename(path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        with suppress(OSError):  # the directory is complete, and some file systems cannot do this
            _fsync(path.parent)
    except OSError as error:
        raise CheckpointError(f"cannot write {str(given)!r}: {error.strerror or error}") from None


# What goes with a single file of weights, of all that lies beside it.
BESIDE = (
    *("config.json", "generation_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt"),
    *("merges.txt", "chat_template.jinja"),
)


def carry_along(source: Path, folder: Path, *, alone: bool = False) -> list[str]:
    """Copy the files of a model other than weights (config, tokenizer, ...); returns their names.

    `alone`: the directory is not the model's own, and only what has a known name is copied.

    A model from elsewhere may hold a link to any file of this machine, whose content would go
    wherever the copy goes. So links are followed within the directory, and, in the cache of the
    Hugging Face hub, which is made of links, to the blobs of the same repository. Any other is
    refused, before anything is copied.
    """
    files = list(_besides_weights(source, alone))
    for name in files:
        try:
            (folder / name.parent).mkdir(parents=True, exist_ok=True)
            shutil.copyfile((source / name).resolve(), folder / name, follow_symlinks=False)
        except OSError as error:
            path = source / name
            raise refusal(path, f"cannot be copied: {error.strerror or error}") from None
    return list(map(str, files))


def _besides_weights(source: Path, alone: bool) -> Iterator[Path]:
    """The names of files to copy; a link that leads away is refused."""
    home = source.resolve()
    allowed = [home, *_blobs(home)]
    for place, folders, files in os.walk(source):
        folders[:] = sorted(set(folders) - OTHER_FOLDERS)
        if alone:
            folders[:], files = [], [file for file in files if file in BESIDE]
        for file in (*folders, *sorted(files)):
            path = Path(place, file)
            if file.lower().endswith(WEIGHT_FILES) or not (path.is_file() or path.is_dir()):
                continue
            target = path.resolve()
            if path.is_symlink() and not any(place in target.parents for place in allowed):
                if target == home:
                    continue
                raise refusal(
                    path,
                    "this is a link to a place outside the directory, which is not copied; "
                    "replace it by the file itself, or remove it",
                )
            if path.is_file():
                yield path.relative_to(source)


def _blobs(home: Path) -> list[Path]:
    """Where files really are, if this is a snapshot in the cache of the Hugging Face hub."""
    repository = home.parent.parent
    if home.parent.name == "snapshots" and re.match("(models|datasets|spaces)--", repository.name):
        return [repository / "blobs"]
    return []


def _require_new(given: Path, inputs: Iterable[Path]) -> Path:
    """Where to write, without links; refused if that would overwrite or mix up anything."""
    try:
        path = given.resolve()
        loop = path.is_symlink()  # Python 3.13 returns a loop of links as it is
    except (RuntimeError, ValueError):  # older ones raise; a name with a null byte
        loop = True
    if loop:
        raise CheckpointError(f"cannot write {str(given)!r}: not the name of a directory")
    for other in (item.resolve() for item in inputs):
        if path == other or path in other.parents or other in path.parents:
            raise CheckpointError(
                f"cannot write {str(given)!r}: it overlaps with the input {str(other)!r}; choose "
                "another directory"
            )
    if path.exists() and (not path.is_dir() or any(path.iterdir()) or path == Path.cwd()):
        raise CheckpointError(
            f"cannot write {str(given)!r}: it already exists; choose a new name, or an empty "
            "directory other than the current one"
        )
    if not path.parent.is_dir():
        raise CheckpointError(
            f"cannot write {str(given)!r}: {str(given.parent)!r} is not an existing directory; "
            "create it first"
        )
    return path


def _remove_leftovers(path: Path) -> None:
    """Remove temporary directories for the same target whose processes are gone."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d+)-[0-9a-f]{{8}}\.partial")
    for other in path.parent.iterdir():
        match = pattern.fullmatch(other.name)
        if match and _is_abandoned(other, int(match[1])):
            shutil.rmtree(other, ignore_errors=True)


def _is_abandoned(folder: Path, process: int) -> bool:
    """Whether it belongs to segre and no process writes to it any more.

    The lock is asked too, since a process may be out of sight in another container.
    """
    try:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or _runs(process):
            return False
        with _locked(folder) as held:
            return held
    except OSError:
        return False


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold the lock of a directory if it is free; the system releases it when the process ends."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = True
        except OSError:  # somebody else has it, or the file system has no locks
            held = False
        yield held
    finally:
        os.close(handle)


def _sync(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        _fsync(path)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
