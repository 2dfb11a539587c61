"""The files of a model directory: which of them hold its weights, and what is in one of them.

No file is trusted: every problem becomes a one-line error. Weights are in one file, or in the
shards that an index names; names of shards stay in the directory. Pickles are never read.
"""

from __future__ import annotations

import json
import mmap
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from segre.checkpoint.dtypes import DTYPES
from segre.errors import CheckpointError
from segre.fields.interface import Array
from segre.files import CHANGED, Identity, identity
from segre.values import quote

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
LONGEST_INDEX = 100_000_000
LONGEST_HEADER = 100_000_000  # as in the library
DEEPEST = 100


def refusal(path: str | Path, problem: str) -> CheckpointError:
    """An error about a file or directory of a model, or about a model in memory, by name."""
    return CheckpointError(f"checkpoint {str(path)!r}: {problem}")


@contextmanager
def reading(path: Path, problem: str) -> Iterator[None]:
    """Turn any exception of opening, mapping or parsing a file into an error about it."""
    try:
        yield
    except OSError as error:
        raise refusal(path, f"{error.strerror or error}") from None
    except RecursionError:
        raise refusal(path, f"{problem} (nested too deeply)") from None
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = "".join(char for char in str(error)[:200] if char.isprintable())
        raise refusal(
            path, f"{problem} ({reason}); the file may be damaged: download it again"
        ) from None


def require_file(path: Path) -> None:
    """Refuse anything but an existing regular file: opening a pipe might block for ever."""
    with reading(path, "cannot be read"):
        mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise refusal(path, "not a regular file")


def read_json(path: Path, limit: int, *, unique: bool = False) -> dict[str, Any]:
    """A JSON object from a file of bounded size; `unique` refuses keys that come twice."""
    require_file(path)
    with reading(path, "not a JSON document"):
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise refusal(path, f"larger than {limit} bytes, too large for a file of this name")
            before = identity(file.fileno())
            data = file.read(size)
            if identity(file.fileno()) != before:
                raise refusal(path, CHANGED)
        document = json.loads(data, object_pairs_hook=_unique if unique else None)
    if not isinstance(document, dict):
        raise refusal(path, "not a table of keys and values")
    if _is_deep(document):
        raise refusal(path, "values are nested too deeply")
    return document


# --- which files ----------------------------------------------------------------------------------


def is_directory(path: Path) -> bool:
    """Whether it is a directory that can be seen."""
    try:
        return str(path).isprintable() and path.is_dir()
    except OSError:  # a name too long, a directory closed to us
        return False


def is_tensor_file(path: Path) -> bool:
    """Whether it is named like a safetensors file and is not a directory."""
    return path.suffix == ".safetensors" and not is_directory(path)


def has_weights(path: Path) -> bool:
    """Whether it is a directory with files that would be weights, or one that cannot be read."""
    if not is_directory(path):
        return is_tensor_file(path)
    weights = (".safetensors", ".safetensors.index.json", ".gguf", *PICKLES)
    try:
        return any(name.endswith(weights) for name in os.listdir(path))  # noqa: PTH208 (names)
    except OSError:
        return True  # let the store say why


def is_shard_name(name: str) -> bool:
    """Whether this names a safetensors file, and cannot lead to another directory."""
    return name.endswith(".safetensors") and not set(name) & {"/", "\\", "\0"}


def listing(directory: Path) -> list[str]:
    """The names of the files of a model directory."""
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 (names are wanted)
    except NotADirectoryError:
        if directory.suffix == ".gguf":
            raise refusal(directory, _convert(directory)) from None
        raise refusal(directory, "this is a file; give a model directory") from None
    except OSError as error:
        reason = error.strerror or error
        raise refusal(directory, f"{reason}; give a model directory") from None
    except ValueError:
        raise refusal(directory, "not the name of a directory") from None


def weight_files(directory: Path, names: list[str]) -> tuple[list[str], dict[str, Any] | None]:
    """The files that hold the weights, and the index of them if they are shards."""
    if WEIGHTS in names:
        return [WEIGHTS], None
    if INDEX in names:
        return _shards(directory, names)
    seen = [name for name in names if not name.startswith(".")]
    found = [name for name in seen if name.endswith(".safetensors")]
    if len(found) == 1:
        return found, None
    if found:
        problem = (
            f"it has {len(found)} safetensors files but no {INDEX}; download the index, or "
            "keep only one file"
        )
    elif ggufs := [name for name in seen if name.endswith(".gguf")]:
        problem = _convert(directory / ggufs[0])
    elif pickles := [name for name in seen if name.endswith(PICKLES)]:
        problem = (
            f"its weights are a pickle ({quote(pickles[0])}), which can run code and is never "
            "read; save the model as safetensors (save_pretrained does)"
        )
    elif CONFIG in names:
        problem = f"it has no weights; allowed: {WEIGHTS}, or {INDEX} and its shards"
    else:
        problem = f"it has no {CONFIG}; {without_config(names)}"
    raise refusal(directory, problem)


def without_config(names: list[str]) -> str:
    """What to do about a directory without a config."""
    if ADAPTER in names:
        return (
            f"it is an adapter ({ADAPTER}), not a model; merge it into its base model first "
            "(merge_and_unload of peft) and save that"
        )
    return "give a model directory"


def _convert(file: Path) -> str:
    return (
        f"GGUF files must be converted first: segre model convert {shlex.quote(str(file))} -o DIR"
    )


def _shards(directory: Path, names: list[str]) -> tuple[list[str], dict[str, Any]]:
    path = directory / INDEX
    index = read_json(path, LONGEST_INDEX, unique=True)
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise refusal(path, 'it has no "weight_map" from tensors to files')
    for name, file in weight_map.items():
        if not isinstance(file, str) or not is_shard_name(file):
            raise refusal(
                path,
                f"the index places tensor {quote(name)} in {quote(str(file))}; allowed: names of "
                ".safetensors files beside the index",
            )
    files = sorted(set(weight_map.values()))
    for file in files:
        if file not in names:
            raise refusal(
                path, f"{quote(file)} is in the index, but the file is missing; download it"
            )
    return files, index


# --- one file ---------------------------------------------------------------------------------


class Safetensors:
    """A file of tensors, mapped: pages are read when they are used.

    The library accepts it first. `tensors` has views that cannot be written to, in the order in
    which they lie in the file.
    """

    def __init__(self, path: Path) -> None:
        require_file(path)
        with reading(path, "not a safetensors file"):
            self.identity: Identity = identity(path)
            with path.open("rb") as file:
                header = self._map(path, file)
            data = np.frombuffer(self._mapped, np.uint8)
            self.metadata: dict[str, str] = header.pop("__metadata__", None) or {}
            self.tensors: dict[str, Array] = {}
            self._places: dict[str, tuple[int, int]] = {}
            for name, said in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
                if said["dtype"] not in DTYPES:
                    raise refusal(
                        path,
                        f"tensor {quote(name)} has type {quote(said['dtype'])}; allowed: "
                        f"{', '.join(DTYPES)}",
                    )
                dtype, shape = DTYPES[said["dtype"]], tuple(said["shape"])
                start, end = (self._start + offset for offset in said["data_offsets"])
                size = prod(shape) * dtype.itemsize
                if not self._start <= start <= end <= len(data) or end - start != size:
                    raise ValueError(f"bad offsets of tensor {quote(name)}")
                self.tensors[name] = data[start:end].view(dtype).reshape(shape)
                self._places[name] = start, end

    def _map(self, path: Path, file: Any) -> dict[str, Any]:
        """Map the file; returns its header."""
        size = os.fstat(file.fileno()).st_size
        first = file.read(8)
        length = int.from_bytes(first, "little")
        if first == b"version ":
            raise refusal(path, "a Git LFS pointer, not the weights; run `git lfs pull`")
        if size < 8 or length > min(size - 8, LONGEST_HEADER):
            raise refusal(
                path,
                f"not a safetensors file, or truncated: the file has {size} bytes, but its "
                f"header would have {length}; download it again",
            )
        text = file.read(length)
        with safe_open(path, "numpy"):  # it checks the header and the size of the file
            pass
        header: dict[str, Any] = json.loads(text, object_pairs_hook=_unique)
        self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._start = 8 + length
        return header

    def forget(self, name: str, start: int, stop: int) -> None:
        """Release the memory of some rows of a tensor; they are read again on the next use."""
        first, last = self._places[name]
        width = (last - first) // max(len(np.atleast_1d(self.tensors[name])), 1)
        page = mmap.PAGESIZE
        begin = -(-(first + start * width) // page) * page
        length = min(first + stop * width, last) // page * page - begin
        if length > 0 and hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED, begin, length)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"{quote(key)} occurs twice")
        table[key] = value
    return table


def _is_deep(document: Any) -> bool:
    level = [document]
    for _ in range(DEEPEST):
        tables = [item for item in level if isinstance(item, dict | list)]
        level = [x for item in tables for x in (item.values() if isinstance(item, dict) else item)]
    return bool(level)
