"""Writing a model like a given one, part by part: a new directory, or arrays in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from segre.checkpoint.folder import carry_along, new_directory
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.shards import CONFIG
from segre.checkpoint.store import Entry, Store
from segre.checkpoint.writer import TensorWriter, converted
from segre.fields.interface import Array


class Writer(Protocol):
    """A receiver of the tensors of files, one at a time."""

    def write(self, name: str, array: Array) -> None:
        """Receive a tensor, rounded to its planned type."""
        ...


class Saving:
    """Writes a model like a given one, part by part."""

    def __init__(self, model: Model, writer: Writer) -> None:
        self.model, self.writer = model, writer

    def part(self, part: str, tensors: Tensors) -> None:
        """Write the tensors of a part, rounded to the types they are stored in."""
        again = {original: file for file, original in self.model.copies.items()}
        for held in self.model.held[part]:
            packed: Array = held.pack(tensors)
            packed += 0.0  # no negative zeros
            self.writer.write(held.file, packed)
            if held.file in again:
                self.writer.write(again[held.file], packed)


@contextmanager
def saving(
    model: Model,
    target: str | Path,
    inputs: Iterable[Path] = (),
    check: Callable[[Path], None] = lambda _: None,
) -> Iterator[Saving]:
    """Write a new model directory with the types, files and tokenizer of `model`.

    `check` looks at the directory when it is complete; if it fails, there is none.
    """
    store = model.store
    with new_directory(target, [*store.inputs, *inputs]) as folder:
        bring_along(store, folder)
        with TensorWriter(folder, _kept(model), store.metadata, store.index) as writer:
            for name in model.carried:
                writer.copy(name, store)
            yield Saving(model, writer)
        check(folder)


def bring_along(store: Store, folder: Path) -> None:
    """Write the files of a model other than weights: its config, tokenizer and so on."""
    if store.directory is not None:
        carry_along(store.directory, folder, alone=store.alone)
    if store.directory is None or store.changed:
        text = json.dumps(store.config, indent=2, sort_keys=True, default=str)
        (folder / CONFIG).write_text(text + "\n", encoding="utf-8")


class Kept:
    """Tensors like those of a model, in memory, by their names in files."""

    def __init__(self, model: Model) -> None:
        self.arrays = {name: model.store.raw(name) for name in model.carried}
        self._plan = {entry.name: entry for entry in _kept(model)}

    def write(self, name: str, array: Array) -> None:
        """Receive a tensor, rounded to its type in the model."""
        self.arrays[name] = converted(self._plan[name], array)


def _kept(model: Model) -> list[Entry]:
    """The tensors of the files that belong to the class of the config."""
    return [e for name, e in model.store.entries.items() if name not in model.unused]
