"""Writing tensors into the safetensors files of a plan, in any order, one at a time.

A file starts with the length of its header (8 bytes), the header (JSON, padded with spaces to a
multiple of 8 bytes) and then has the numbers of all tensors, without gaps.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from segre.checkpoint.dtypes import DType, all_finite, dtype_name, is_float, rounded
from segre.checkpoint.shards import INDEX, WEIGHTS, is_shard_name
from segre.checkpoint.store import Entry, Store
from segre.errors import CheckpointError
from segre.fields.interface import Array
from segre.values import quote

BLOCK = 1 << 18  # numbers that are converted at a time


class TensorWriter:
    """Writes the tensors of a plan, in any order, for use in `with`.

    While unfinished, a file is called NAME.partial. If the block ends well and every tensor was
    written, the files get their names; if there are several, the index is written last.
    """

    def __init__(
        self,
        folder: Path,
        plan: Iterable[Entry],
        metadata: Mapping[str, Mapping[str, str]] | None = None,
        index: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder = folder
        self._plan: dict[str, Entry] = {}
        self._shards: dict[str, list[Entry]] = {}
        for entry in plan:
            if entry.name in self._plan or not is_shard_name(entry.file):
                raise CheckpointError(
                    f"plan of {quote(entry.name)}: it occurs twice, or is in no shard"
                )
            self._plan[entry.name] = entry
            self._shards.setdefault(entry.file, []).append(entry)
        self._metadata = metadata or {}
        self._index = index
        self._files: dict[str, BinaryIO] = {}
        self._positions: dict[str, int] = {}
        self._missing = dict.fromkeys(self._plan)

    def __enter__(self) -> TensorWriter:
        try:
            for file, entries in self._shards.items():
                self._start(file, entries)
        except BaseException:
            self._abandon()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._abandon()
            return
        try:
            self._finish()
        except BaseException:
            self._abandon()
            raise

    def write(self, name: str, array: Array) -> None:
        """Write a tensor of floats, rounded to the nearest numbers of its planned type.

        Integers and the like must have their planned type already.
        """
        entry = self._due(name, array.shape)
        if array.dtype != entry.dtype and not (is_float(array.dtype) and is_float(entry.dtype)):
            raise _mistyped(entry, array.dtype)
        self._put(entry, (converted(entry, block) for block in _blocks(array)))

    def copy(self, name: str, source: Store) -> None:
        """Write a tensor of another model, byte for byte."""
        stored = source.raw(name)
        entry = self._due(name, stored.shape)
        if stored.dtype != entry.dtype:
            raise _mistyped(entry, stored.dtype)
        self._put(entry, (stored,))

    def _due(self, name: str, shape: tuple[int, ...]) -> Entry:
        """The plan for the next tensor to be written."""
        if name not in self._missing:
            problem = "is already written" if name in self._plan else "is not planned"
            raise CheckpointError(f"tensor {quote(name)} {problem}")
        entry = self._plan[name]
        if shape != entry.shape:
            raise CheckpointError(
                f"tensor {quote(name)} has shape {list(shape)}; planned: {list(entry.shape)}"
            )
        return entry

    def _put(self, entry: Entry, blocks: Iterable[Array]) -> None:
        file = self._files[entry.file]
        file.seek(self._positions[entry.name])
        for block in blocks:
            file.write(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
        del self._missing[entry.name]

    def _start(self, file: str, entries: list[Entry]) -> None:
        """Open a file and write its header; wider types go first, so that all are aligned."""
        metadata = {"format": "pt", **self._metadata.get(file, {})}
        header: dict[str, Any] = {"__metadata__": metadata}
        end = 0
        ordered = sorted(entries, key=lambda entry: -entry.dtype.itemsize)
        for entry in ordered:
            start, end = end, end + entry.nbytes
            header[entry.name] = {
                "dtype": dtype_name(entry.dtype),
                "shape": list(entry.shape),
                "data_offsets": [start, end],
            }
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self._files[file] = self._partial(file).open("xb")
        self._files[file].write(len(text).to_bytes(8, "little") + text)
        for entry in ordered:
            self._positions[entry.name] = 8 + len(text) + header[entry.name]["data_offsets"][0]

    def _finish(self) -> None:
        if self._missing:
            raise CheckpointError(f"tensor {quote(next(iter(self._missing)))} was never written")
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for name in self._files:
            self._partial(name).rename(self._folder / name)
        if self._index is not None or set(self._files) - {WEIGHTS}:
            text = json.dumps(self._new_index(), indent=2, ensure_ascii=False)
            (self._folder / INDEX).write_text(text + "\n", encoding="utf-8")

    def _new_index(self) -> dict[str, Any]:
        """The given index with its map and its totals as they are now."""
        entries = self._plan.values()
        given = self._index or {}
        metadata = given.get("metadata")
        totals = {"total_size": sum(entry.nbytes for entry in entries)}
        if isinstance(metadata, dict) and "total_parameters" in metadata:
            floats = [entry.size for entry in entries if is_float(entry.dtype)]
            totals["total_parameters"] = sum(floats)
        return {
            **given,
            "metadata": {**(metadata if isinstance(metadata, dict) else {}), **totals},
            "weight_map": {entry.name: entry.file for entry in entries},
        }

    def _abandon(self) -> None:
        for name, file in self._files.items():
            with suppress(OSError):  # closing may try to write once more
                file.close()
            with suppress(OSError):
                self._partial(name).unlink()

    def _partial(self, file: str) -> Path:
        return self._folder / f"{file}.partial"


def _blocks(array: Array) -> Iterator[Array]:
    """Pieces of an array, in its order, that are small enough to convert."""
    if array.size <= BLOCK:
        yield array
    elif len(array) == 1:
        yield from _blocks(array[0])
    else:
        half = len(array) // 2
        yield from _blocks(array[:half])
        yield from _blocks(array[half:])


def converted(entry: Entry, block: Array) -> Array:
    """Numbers in the type of an entry; refused if they are too large for it."""
    new = rounded(block, entry.dtype)
    if is_float(entry.dtype) and not all_finite(new):
        if not all_finite(block):
            raise CheckpointError(f"tensor {quote(entry.name)} has a NaN or an infinity")
        raise CheckpointError(
            f"tensor {quote(entry.name)} has numbers too large for {dtype_name(entry.dtype)}; "
            "choose a wider type"
        )
    return new


def _mistyped(entry: Entry, dtype: DType) -> CheckpointError:
    return CheckpointError(
        f"tensor {quote(entry.name)} is {dtype_name(dtype)}; planned: {dtype_name(entry.dtype)}"
    )
