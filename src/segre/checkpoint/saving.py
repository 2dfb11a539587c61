"""Writing models: tensors into the files of a plan, and a model like a given one, part by part.

A safetensors file starts with the length of its header (8 bytes), the header (JSON, padded with
spaces to a multiple of 8 bytes) and then has the numbers of all tensors, without gaps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from segre.checkpoint.dtypes import DType, all_finite, dtype_name, is_float, rounded
from segre.checkpoint.folder import carry_along, new_directory
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.reading import CONFIG, INDEX, WEIGHTS, is_shard_name
from segre.checkpoint.sizes import row_blocks
from segre.checkpoint.store import Entry, Store
from segre.errors import CheckpointError
from segre.fields.interface import Array
from segre.values import quote

BLOCK = 1 << 18  # numbers that are converted at a time


class TensorWriter:
    """Writes the tensors of a plan into a new directory, in any order, for use in `with`.

    Until all are written, a file is called NAME.partial; if that fails, it is removed. If there are
    several files, the index is written last.
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
        self._metadata, self._index = metadata or {}, index
        self._files: dict[str, BinaryIO] = {}
        self._positions: dict[str, int] = {}
        self._missing = dict.fromkeys(self._plan)

    def __enter__(self) -> TensorWriter:
        with ExitStack() as opened:
            for file, entries in self._shards.items():
                self._files[file] = opened.enter_context(self._partial(file).open("xb"))
                self._start(file, entries)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._opened.close()
        if kind is not None or self._missing:
            for file in self._files:
                self._partial(file).unlink()
            if kind is None:
                raise CheckpointError(
                    f"tensor {quote(next(iter(self._missing)))} was never written"
                )
            return
        for file in self._files:
            self._partial(file).rename(self._folder / file)
        if self._index is not None or set(self._files) - {WEIGHTS}:
            text = json.dumps(self._new_index(), indent=2, ensure_ascii=False)
            (self._folder / INDEX).write_text(text + "\n", encoding="utf-8")

    def _partial(self, file: str) -> Path:
        return self._folder / f"{file}.partial"

    def write(self, name: str, array: Array) -> None:
        """Write a tensor of floats, rounded to the nearest numbers of its planned type.

        Integers and the like must have their planned type already.
        """
        entry = self._due(name, array)
        if array.dtype != entry.dtype and not (is_float(array.dtype) and is_float(entry.dtype)):
            raise _mistyped(entry, array.dtype)
        rows = array.reshape(1) if array.ndim == 0 else array
        spans = row_blocks(len(rows), rows.size, BLOCK)
        self._put(entry, (converted(entry, rows[start:stop]) for start, stop in spans))

    def copy(self, name: str, source: Store) -> None:
        """Write a tensor of another model, byte for byte."""
        stored = source.raw(name)
        entry = self._due(name, stored)
        if stored.dtype != entry.dtype:
            raise _mistyped(entry, stored.dtype)
        self._put(entry, (stored,))

    def _due(self, name: str, array: Array) -> Entry:
        """The plan for the next tensor to be written."""
        if name not in self._missing:
            problem = "is already written" if name in self._plan else "is not planned"
            raise CheckpointError(f"tensor {quote(name)} {problem}")
        entry = self._plan[name]
        if array.shape != entry.shape:
            raise CheckpointError(
                f"tensor {quote(name)} has shape {list(array.shape)}; planned: {list(entry.shape)}"
            )
        return entry

    def _put(self, entry: Entry, blocks: Iterable[Array]) -> None:
        file = self._files[entry.file]
        file.seek(self._positions[entry.name])
        for block in blocks:
            file.write(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
        del self._missing[entry.name]

    def _start(self, file: str, entries: list[Entry]) -> None:
        """Write the header of a file; wider types go first, so that all are aligned."""
        header: dict[str, Any] = {"__metadata__": {"format": "pt", **self._metadata.get(file, {})}}
        end = 0
        for entry in sorted(entries, key=lambda entry: -entry.dtype.itemsize):
            self._positions[entry.name], end = end, end + entry.nbytes
            header[entry.name] = {
                "dtype": dtype_name(entry.dtype),
                "shape": list(entry.shape),
                "data_offsets": [end - entry.nbytes, end],
            }
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self._files[file].write(len(text).to_bytes(8, "little") + text)
        for entry in entries:
            self._positions[entry.name] += 8 + len(text)

    def _new_index(self) -> dict[str, Any]:
        """The given index with its map and its totals as they are now."""
        entries, given = self._plan.values(), self._index or {}
        metadata = given.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        totals = {"total_size": sum(entry.nbytes for entry in entries)}
        if "total_parameters" in metadata:
            totals["total_parameters"] = sum(e.size for e in entries if is_float(e.dtype))
        where = {entry.name: entry.file for entry in entries}
        return {**given, "metadata": {**metadata, **totals}, "weight_map": where}


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


# --- a model like a given one ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A checkpoint that was written, which other functions accept as a checkpoint."""

    directory: Path | None = None  # None: its weights are in memory
    tensors: Mapping[str, Array] = field(default_factory=dict, repr=False)  # if in memory
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def as_checkpoint(self) -> Path | tuple[Mapping[str, Array], Mapping[str, Any]]:
        """The input for other functions: the directory, or the weights and their config."""
        return (self.tensors, self.config) if self.directory is None else self.directory


@dataclass
class Saving:
    """Writes a model like a given one, part by part."""

    model: Model
    write: Callable[[str, Array], None]  # receives a tensor of a file, by name
    target: Path | None = None
    arrays: dict[str, Array] = field(default_factory=dict)  # by name, if they stay in memory

    def part(self, part: str, tensors: Tensors) -> None:
        """Write the tensors of a part, rounded to the types they are stored in."""
        again = {original: file for file, original in self.model.copies.items()}
        for held in self.model.held[part]:
            packed: Array = held.pack(tensors)
            packed += 0.0  # no negative zeros
            self.write(held.file, packed)
            if held.file in again:
                self.write(again[held.file], packed)

    @property
    def saved(self) -> dict[str, Any]:
        """The fields of `Saved`."""
        config = self.model.store.config if self.target is None else {}
        return {"directory": self.target, "tensors": self.arrays, "config": config}


@contextmanager
def saving(
    model: Model,
    target: str | Path | None = None,
    inputs: Iterable[Path] = (),
    check: Callable[[Any], None] = lambda _: None,
) -> Iterator[Saving]:
    """Write a model with the types of `model`: a directory with its files, or arrays in memory.

    `check` looks at the checkpoint when it is complete; if it fails, there is no directory.
    """
    store = model.store
    plan = {name: e for name, e in store.entries.items() if name not in model.unused}
    if target is None:
        arrays = {name: store.raw(name) for name in model.carried}

        def keep(name: str, array: Array) -> None:
            arrays[name] = converted(plan[name], array)

        yield Saving(model, keep, None, arrays)
        check((arrays, store.config))
        return
    with new_directory(target, [*store.inputs, *inputs]) as folder:
        bring_along(store, folder)
        with TensorWriter(folder, plan.values(), store.metadata, store.index) as writer:
            for name in model.carried:
                writer.copy(name, store)
            yield Saving(model, writer.write, Path(target))
        check(folder)


def bring_along(store: Store, folder: Path) -> None:
    """Write the files of a model other than weights: its config, tokenizer and so on."""
    if store.directory is not None:
        carry_along(store.directory, folder, alone=store.alone)
    if store.directory is None or store.changed:
        text = json.dumps(store.config, indent=2, sort_keys=True, default=str)
        (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
