"""Writing a model directory, completely or not at all.

Everything goes to a temporary directory beside the target, which is renamed when it is complete.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from segre.checkpoint.reading import refusal
from segre.checkpoint.store import OPEN
from segre.errors import CheckpointError
from segre.files import CHANGED, identity, locked, placed, sync, temporary_beside

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
    given, inputs = Path(target), list(inputs)
    try:
        path = _require_new(given, inputs)
        with temporary_beside(path, ".partial", stat.S_IFDIR) as temporary:
            temporary.mkdir()
            with locked(temporary):
                yield temporary
                for each in (*temporary.rglob("*"), temporary):
                    sync(each)
                for store in {*OPEN}:
                    if not {*inputs}.isdisjoint(store.inputs):
                        store.require_unchanged()
                placed.append(given)
                temporary.rename(path)
        with suppress(OSError):  # the directory is complete, and some file systems cannot do this
            sync(path.parent)
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
            real = (source / name).resolve()
            before = identity(real)
            shutil.copyfile(real, folder / name, follow_symlinks=False)
            if identity(real) != before:
                raise OSError(errno.EBUSY, CHANGED)
        except OSError as error:
            path = source / name
            raise refusal(path, f"cannot be copied: {error.strerror or error}") from None
    return list(map(str, files))


def _besides_weights(source: Path, alone: bool) -> Iterator[Path]:
    """The names of files to copy; a link that leads away is refused."""
    home = source.resolve()
    allowed, repository = [home], home.parent.parent
    if home.parent.name == "snapshots" and re.match("(models|datasets|spaces)--", repository.name):
        allowed.append(repository / "blobs")  # where files of the hub's cache really are
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


def _require_new(given: Path, inputs: Iterable[Path]) -> Path:
    """Where to write, without links; refused if that would overwrite or mix up anything."""
    try:
        path = given.resolve()
        loop = path.is_symlink()  # Python 3.13 returns a loop of links as it is
    except (RuntimeError, ValueError):  # older ones raise; a name with a null byte
        path, loop = given, True
    others = [item.resolve() for item in inputs]
    mixed = (x for x in others if path == x or path in x.parents or x in path.parents)
    problem = ""
    if loop:
        problem = "not the name of a directory"
    elif str(given) == "-" or (given.is_symlink() and not path.exists()):
        what = "a link to nothing" if given.is_symlink() else "standard output"
        problem = f"this is {what}, and a directory is written; give its name"
    elif other := next(mixed, None):
        problem = f"it overlaps with the input {str(other)!r}; choose another directory"
    elif path.exists() and (not path.is_dir() or any(path.iterdir()) or path == Path.cwd()):
        problem = (
            "it already exists; choose a new name, or an empty directory other than the current one"
        )
    elif not path.parent.is_dir():
        problem = f"{str(given.parent)!r} is not an existing directory; create it first"
    if problem:
        raise CheckpointError(f"cannot write {str(given)!r}: {problem}")
    return path
