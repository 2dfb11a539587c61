"""Reading a file of a model without trusting it: every problem becomes a one-line error."""

from __future__ import annotations

import json
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from segre.errors import CheckpointError
from segre.fields.interface import Array
from segre.files import CHANGED, identity
from segre.values import quote

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


@dataclass(frozen=True)
class Mapped:
    """The bytes of a file after its header, mapped: pages are read when they are used."""

    file: mmap.mmap
    start: int

    def bytes(self) -> Array:
        """All bytes, as a read-only array."""
        return np.frombuffer(self.file, np.uint8)[self.start :]

    def forget(self, start: int, end: int) -> None:
        """Release the memory of a range; it is read from the file again on the next use."""
        first = -(-(self.start + start) // mmap.PAGESIZE) * mmap.PAGESIZE
        length = (self.start + end) // mmap.PAGESIZE * mmap.PAGESIZE - first
        if length > 0 and hasattr(mmap, "MADV_DONTNEED"):
            self.file.madvise(mmap.MADV_DONTNEED, first, length)


def map_tensors(path: Path) -> tuple[dict[str, Any], Mapped]:
    """The header of a safetensors file that the library accepts, and the bytes after it."""
    require_file(path)
    with reading(path, "not a safetensors file"), path.open("rb") as file:
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
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return header, Mapped(mapped, 8 + length)


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
