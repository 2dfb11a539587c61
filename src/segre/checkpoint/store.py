"""A model directory opened for reading: its config, and tensors mapped from safetensors files.

The library `safetensors` accepts each file first, sizes are compared with the file's own, and
names of shards stay in the directory. Tensors are views of the mapped files, so that opening a
model costs no memory. Pickles are never read. A store may also hold arrays that are in memory
already: then it has no directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from segre.checkpoint.dtypes import (
    DTYPES,
    DType,
    all_finite,
    as_floats,
    dtype_name,
    is_float,
)
from segre.checkpoint.reading import (
    CONFIG,
    INDEX,
    WEIGHTS,
    Safetensors,
    is_tensor_file,
    listing,
    read_json,
    reading,
    refusal,
    weight_files,
    without_config,
)
from segre.checkpoint.sizes import row_blocks
from segre.errors import TooLargeError
from segre.fields.interface import Array
from segre.files import CHANGED, Identity, identity
from segre.values import quote

LONGEST_CONFIG = 10_000_000
SLAB = 1 << 18  # numbers that are converted at a time


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored tensor, as the header of its file describes it."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    file: str

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes it takes in its file."""
        return self.size * self.dtype.itemsize


OPEN: WeakSet[Store] = WeakSet()


@dataclass(eq=False, repr=False)
class Store:
    """The config and the tensors of a model, for use in `with`; `name` is how errors call it."""

    directory: Path | None
    config: dict[str, Any]
    index: dict[str, Any] | None = None
    name: str = ""
    alone: bool = False  # one file of a directory that is not the model's own
    changed: bool = False  # the config is not that of the directory
    tokenizer: Any = None  # of its directory, once it was read
    entries: dict[str, Entry] = field(default_factory=dict)
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    _arrays: dict[str, Array] = field(default_factory=dict)
    _mapped: dict[str, Safetensors] = field(default_factory=dict)  # by tensor: its file, if mapped
    _finite: set[str] = field(default_factory=set)  # tensors of files that are known to be finite
    _seen: dict[Path, Identity] = field(default_factory=dict)  # its files, as they were opened

    def __post_init__(self) -> None:
        self.name = self.name or str(self.directory)
        OPEN.add(self)

    @classmethod
    def open(cls, path: str | Path, name: str = "") -> Store:
        """Map the tensors of a model directory, or of one file with its config beside it.

        Problems are reported in one line; `name` is used in errors.
        """
        directory, alone = Path(path), is_tensor_file(Path(path))
        if alone:
            files, index, directory = [directory.name], None, directory.parent
            if CONFIG not in listing(directory):
                raise refusal(path, f"{CONFIG} is missing; put it into the same directory")
        else:
            names = listing(directory)
            files, index = weight_files(directory, names)
            if CONFIG not in names:
                raise refusal(directory, f"it has no {CONFIG}; {without_config(names)}")
        own = directory / CONFIG
        with reading(own, "cannot be read"):
            seen = identity(own)
        config = read_json(own, LONGEST_CONFIG)
        store = cls(directory, config, index, name or str(path), alone, _seen={own: seen})
        for file in files:
            store._add(file)
        if index is not None:
            store._compare_with_index(index["weight_map"])
        return store

    @classmethod
    def of(cls, name: str, config: Mapping[str, Any], arrays: Mapping[str, Array]) -> Store:
        """Arrays in memory, without copies: later changes to them are visible."""
        store = cls(None, dict(config), name=name)
        for key, array in arrays.items():
            if array.dtype not in DTYPES.values():
                raise refusal(
                    name,
                    f"tensor {quote(key)} has type {quote(str(array.dtype))}; allowed: "
                    f"{', '.join(DTYPES)}",
                )
            own = array.view()
            own.flags.writeable = False
            store._arrays[key] = own
            store.entries[key] = Entry(key, array.dtype, array.shape, WEIGHTS)
        return store

    def with_copy(self, name: str, copied: str, config: Mapping[str, Any]) -> Store:
        """The same tensors, one of them under another name too, with another config."""
        out = copy(self)
        out.config, out.changed = dict(config), True
        out.entries = self.entries | {copied: replace(self.entries[name], name=copied)}
        out._arrays = self._arrays | {copied: self._arrays[name]}
        return out

    @property
    def inputs(self) -> list[Path]:
        """The input paths, which must not be overwritten."""
        if self.directory is None:
            return []
        return [self.directory / file for file in self.metadata] if self.alone else [self.directory]

    @property
    def on_disk(self) -> int:
        """Bytes of its files and its config; of numbers that are in memory."""
        if self.directory is None:
            return self.nbytes
        return sum((self.directory / file).stat().st_size for file in (*self.metadata, CONFIG))

    def _holder(self, name: str) -> str | Path:
        """How errors name the file of a tensor."""
        return self.name if self.directory is None else self.directory / self.entries[name].file

    def raw(self, name: str) -> Array:
        """A tensor in its stored type: a view of the file that cannot be written to."""
        if name not in self._arrays:
            known = name in self.entries
            problem = "was requested after the file was closed" if known else "is missing"
            raise refusal(self.name, f"tensor {quote(name)} {problem}")
        return self._arrays[name]

    def read(self, name: str, dtype: npt.DTypeLike = np.float64) -> Array:
        """A tensor as float64, or `dtype`; refused if not all of its numbers are finite.

        What is stored as float32 and read as such is a view of the file, not a copy.
        """
        stored, to = self.raw(name), np.dtype(dtype)
        if name not in self._mapped or stored.dtype == to == np.float32:
            return self._floats(name, lambda: as_floats(stored, to, copy=to == np.float64), to)
        values = self._floats(name, lambda: self._copied(name, to), to)
        self._finite.add(name)
        return values

    def _copied(self, name: str, dtype: DType) -> Array:
        """A tensor of a file, converted slab by slab; the file's memory is released."""
        stored = np.atleast_1d(self.raw(name))
        out = np.empty(stored.shape, dtype)
        first = stored.dtype if stored.dtype.itemsize >= 4 else np.dtype(np.float32)
        for start, stop in row_blocks(len(stored), stored.size, SLAB):
            with np.errstate(invalid="ignore", over="ignore"):
                out[start:stop] = as_floats(stored[start:stop], first)
            self._mapped[name].forget(name, start, stop)
        return out.reshape(self.raw(name).shape)

    def picked(self, name: str, which: Array, dtype: npt.DTypeLike = np.float64) -> Array:
        """Some rows of a tensor, as floats; the others are not read."""
        to = np.dtype(dtype)
        return self._floats(name, lambda: as_floats(self.raw(name)[which], to), to)

    def _floats(self, name: str, convert: Callable[[], Array], dtype: DType) -> Array:
        """What a conversion of a tensor gives; refused if that is not all finite."""
        stored = self.raw(name)
        if not is_float(stored.dtype):
            raise refusal(
                self._holder(name),
                f"tensor {quote(name)} has type {dtype_name(stored.dtype)}; weights must be "
                "floating point",
            )
        try:
            values = convert()
            finite = name in self._finite or all_finite(values)
        except MemoryError:
            raise TooLargeError(
                f"checkpoint {str(self._holder(name))!r}: not enough memory for tensor "
                f"{quote(name)} of shape {list(stored.shape)} in {dtype}"
            ) from None
        if not finite:
            first = np.unravel_index(np.argmin(np.isfinite(values)), values.shape)
            raise refusal(
                self._holder(name),
                f"tensor {quote(name)} is {values[first]} at {[int(i) for i in first]}; weights "
                "must be finite",
            )
        return values

    def rows(self, name: str, start: int, stop: int) -> Array:
        """Some rows of a tensor in its stored type, as a copy; a vector has rows of one number."""
        out = np.array(self.raw(name)[start:stop])
        if name in self._mapped:
            self._mapped[name].forget(name, start, stop)
        return out.reshape(len(out), -1)

    @property
    def nbytes(self) -> int:
        """How many bytes all tensors take."""
        return sum(entry.nbytes for entry in self.entries.values())

    @property
    def parameters(self) -> int:
        """How many weights there are; integers are buffers, and not counted."""
        return sum(entry.size for entry in self.entries.values() if is_float(entry.dtype))

    def close(self) -> None:
        """Close the files; arrays returned by `raw` stay valid."""
        OPEN.discard(self)
        self._arrays.clear()
        self._mapped.clear()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None or issubclass(kind, Exception):  # which may come from the change
                self.require_unchanged()
        finally:
            self.close()

    def require_unchanged(self) -> None:
        """Refuse to go on if one of its files was written to after it was opened."""
        for path, seen in self._seen.items():
            with suppress(FileNotFoundError):  # what was deleted is still mapped
                if identity(path) != seen:
                    raise refusal(path, CHANGED)

    def _add(self, file: str) -> None:
        """Take in the tensors of one file, in the order in which they lie in it."""
        assert self.directory is not None
        path = self.directory / file
        opened = Safetensors(path)
        self._seen[path], self.metadata[file] = opened.identity, opened.metadata
        for name, array in opened.tensors.items():
            if name in self.entries:
                other = self.entries[name].file
                raise refusal(path, f"tensor {quote(name)} is also in {quote(other)}")
            self.entries[name] = Entry(name, array.dtype, array.shape, file)
            self._mapped[name] = opened
        self._arrays |= opened.tensors

    def _compare_with_index(self, weight_map: dict[str, str]) -> None:
        assert self.directory is not None
        for name in (*weight_map, *self.entries):
            file = self.entries[name].file if name in self.entries else "no file"
            said = weight_map.get(name, "no file")
            if file != said:
                raise refusal(
                    self.directory / INDEX,
                    f"tensor {quote(name)} is in {quote(file)}, but the index names "
                    f"{quote(said)}; download the model again",
                )
