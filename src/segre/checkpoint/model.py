"""A checkpoint as an architecture with weights: parts read one at a time, in double precision."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from segre.checkpoint.dtypes import float_info
from segre.checkpoint.folder import carry_along, new_directory
from segre.checkpoint.layout import Held, Tensors, layout, stacked
from segre.checkpoint.opening import opened
from segre.checkpoint.quantised import require_plain
from segre.checkpoint.shards import CONFIG
from segre.checkpoint.store import Entry, Store
from segre.checkpoint.writer import TensorWriter, converted
from segre.errors import CheckpointError
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.models.family import BEFORE, BESIDE, Family, Stored
from segre.models.registry import family_of, from_config
from segre.transformer.spec import Transformer

Progress = Callable[[str, int, int], None]


def no_progress(_stage: str, _done: int, _total: int) -> None:
    """Say nothing."""


@dataclass
class Model:
    """An opened checkpoint; its function gives hidden states or logits."""

    store: Store
    family: str
    spec: Transformer
    held: dict[str, list[Held]]
    copies: dict[str, str] = field(default_factory=dict)  # tied tensors that are stored twice
    carried: tuple[str, ...] = ()  # constants beside the weights
    unused: tuple[str, ...] = ()  # tensors that the class of the config does not have
    # by part and tensor: what the numbers of the file are multiplied by when they are read
    factors: dict[str, dict[str, float]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def open(cls, source: Any) -> Iterator[Model]:
        """Open a checkpoint (`opening`), checked against its config.

        Inside the block, BLAS uses one thread if the model is narrow.
        """
        with opened(source) as store:
            model = described(store)
            with threads_for(model.spec.d):
                yield model

    @property
    def name(self) -> str:
        """Its name: the given directory, or a description."""
        return self.store.name

    @property
    def folder(self) -> Path | None:
        """The directory of its config, if it has one; a tokenizer may be there."""
        return self.store.directory

    @property
    def parts(self) -> list[str]:
        """embed, 1, 2, ..., head: those that have tensors."""
        return [part for part, held in self.held.items() if held]

    def part(
        self, part: str, names: Iterable[str] | None = None, dtype: npt.DTypeLike = np.float64
    ) -> Tensors:
        """The tensors of a part, or only the named ones, in double precision or `dtype`.

        Tensors stored in that type are read-only views of the file.
        """
        wanted = None if names is None else set(names)
        out: Tensors = {}
        for held in self.held[part]:
            if wanted is None or wanted & set(held.names):
                held.put(held.unpack(self.stored(part, held, dtype)), out)
        if wanted is not None:
            out = {name: x for name, x in out.items() if name in wanted}
        for name in out.keys() & self.factors.get(part, {}).keys():
            out[name] = (out[name] * self.factors[part][name]).astype(dtype, copy=False)
        return out

    def stored(self, _part: str, held: Held, dtype: npt.DTypeLike = np.float64) -> Array:
        """A tensor as the file has it, in double precision or `dtype`."""
        return self.store.read(held.file, dtype)

    def columns(self, name: str, which: Array, dtype: npt.DTypeLike = np.float64) -> Array:
        """Some columns of an embedding table, which are rows of the file."""
        held = next(held for held in self.held["embed"] if name in held.names)
        plain = held.how == Stored((name,), columns=True)
        if type(self) is not Model or not plain:
            return self.part("embed", [name], dtype)[name][:, which]
        return self.store.picked(held.file, which, dtype).T

    def roundoff(self) -> float:
        """The largest relative rounding error of the types in which weights are stored."""
        types = {
            self.store.entries[held.file].dtype for part in self.held.values() for held in part
        }
        return max(unit_roundoff(dtype) for dtype in types)


def unit_roundoff(dtype: np.dtype) -> float:
    """Half the distance from 1 to the next number of a type.

    >>> unit_roundoff(np.dtype("float32")) == 2.0**-24
    True
    """
    return float(float_info(dtype).eps) / 2


def described(store: Store, *, compare: bool = True, trunk: bool = False) -> Model:
    """The store as a model; refuses tensors that are missing, unexpected or of another shape.

    `compare` checks that tied tensors stored twice agree. With `trunk` the model ends with its last
    hidden states, and all other tensors of the files are ignored.
    """
    require_plain(store)
    name = store.name
    aside = {"architectures"} if trunk else set()
    config = {key: value for key, value in store.config.items() if key not in aside}
    spec = from_config(config, _config_name(store), defaults=False)
    if trunk:
        spec = spec.trunk()
    family = family_of(store.config)
    if spec.output == "softmax":
        spec = spec.with_output("logits")
    kind = family.model_type
    model = Model(store, kind, spec, layout(spec, kind, store.config))
    left = dict(store.entries)
    others = stacked(spec, kind, store.config)
    for part, every in model.held.items():
        chosen = _instead(family, every, others[part], left)
        model.held[part] = [_found(family, held, left, name) for held in chosen]
    if trunk:
        return model
    model.copies = _copies(model, family, left, compare)
    model.carried = _take(left, lambda key: key.endswith(family.buffers) or 0 in left[key].shape)
    unused = tuple(start.format(layers=spec.layers) for start in family.unused)
    if any("language_model." in held.file for every in model.held.values() for held in every):
        unused += BESIDE
    starts = tuple(before + part for before in (family.prefix, *BEFORE) for part in unused)
    model.unused = _take(left, lambda key: key.startswith(starts))
    if left:
        raise CheckpointError(
            f"checkpoint {name!r}: tensor {min(left)!r} is not part of a {kind} model of class "
            f"{_class(store)}; allowed: the tensors of that class"
        )
    return model


def _config_name(store: Store) -> str:
    """How errors name its config."""
    return store.name if store.directory is None else str(store.directory / CONFIG)


def _take(left: dict[str, Entry], chosen: Callable[[str], bool]) -> tuple[str, ...]:
    found = tuple(key for key in left if chosen(key))
    for key in found:
        del left[key]
    return found


def _class(store: Store) -> str:
    named = store.config.get("architectures")
    return str(named[0]) if isinstance(named, list) and named else "(not named in config.json)"


def _instead(
    family: Family, every: list[Held], others: list[Held], left: Mapping[str, Entry]
) -> list[Held]:
    """The tensors of a part; those of `others` replace equivalent ones if the files have them."""
    there = [held for held in others if any(file in left for file in family.names(held.file))]
    same = {name for held in there for name in held.names}
    return [held for held in every if not same & set(held.names)] + there


def _found(family: Family, held: Held, left: dict[str, Entry], name: str) -> Held:
    """A tensor under its name in the file."""
    for file in family.names(held.file):
        entry = left.pop(file, None)
        if entry is None:
            continue
        if entry.shape != held.stored_shape:
            raise CheckpointError(
                f"checkpoint {name!r}: tensor {file!r} has shape {list(entry.shape)}, but "
                f"config.json requires {list(held.stored_shape)}"
            )
        if entry.dtype.kind not in "fV":
            raise CheckpointError(
                f"checkpoint {name!r}: tensor {file!r} has type {entry.dtype}; allowed: "
                "floating-point types"
            )
        return replace(held, file=file)
    raise CheckpointError(f"checkpoint {name!r}: tensor {held.file!r} is missing")


def _copies(model: Model, family: Family, left: dict[str, Entry], compare: bool) -> dict[str, str]:
    """Tied tensors that are in the files twice; they must agree."""
    where = {n: held.file for every in model.held.values() for held in every for n in held.names}
    pairs = family.copies if model.spec.tied else {}
    out = {}
    for said, original in pairs.items():
        file = next((name for name in family.names(said) if name in left), "")
        if not file or original not in where:
            continue
        del left[file]
        out[file] = where[original]
        if compare:
            _require_equal(model.store, file, where[original])
    return out


def _require_equal(store: Store, one: str, two: str) -> None:
    a, b = store.raw(one), store.raw(two)
    if a.shape != b.shape or a.dtype != b.dtype or not np.array_equal(bits(a), bits(b)):
        raise CheckpointError(
            f"checkpoint {store.name!r}: config.json says that {one!r} and {two!r} are "
            "tied, but they differ"
        )


def bits(stored: Array) -> Array:
    """A stored tensor as unsigned integers, to compare number by number."""
    return stored.view(np.dtype(f"u{stored.dtype.itemsize}"))


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
