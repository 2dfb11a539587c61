"""A model that can be asked: its architecture, its tensors, its name and its tokenizer's place.

The tensors are those of files or of an object in memory, read one part at a time in double
precision, or random ones that are drawn when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from segre.checkpoint.dtypes import DType, float_info
from segre.checkpoint.layout import Held, Tensors, layout
from segre.checkpoint.opening import opened, require_plain
from segre.checkpoint.reading import CONFIG, refusal
from segre.checkpoint.store import Entry, Store
from segre.errors import CheckpointError, TooLargeError
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.files import shown
from segre.geometry import progress
from segre.models.family import BEFORE, BESIDE, Family
from segre.models.registry import family_of, from_config
from segre.models.stored import Stored
from segre.shown import Brief
from segre.transformer.drawn import Drawn
from segre.transformer.forward import WeightSource
from segre.transformer.spec import Transformer
from segre.values import quote

Progress: TypeAlias = progress.Progress
no_progress = progress.quiet


@dataclass
class Model(Brief):
    """An opened model, for use in `with`; its function gives hidden states or logits.

    Inside the block, BLAS uses one thread if the model is narrow.
    """

    store: Store
    family: str
    spec: Transformer  # of the outputs: logits, where the design has a distribution
    held: dict[str, list[Held]]
    copies: dict[str, str] = field(default_factory=dict)  # tied tensors that are stored twice
    carried: tuple[str, ...] = ()  # constants beside the weights
    unused: tuple[str, ...] = ()  # tensors that the class of the config does not have
    # by part and tensor: what the numbers of the file are multiplied by when they are read
    factors: dict[str, dict[str, float]] = field(default_factory=dict)
    design: Transformer | None = None  # the architecture as the config or the spec has it
    tensors: WeightSource | None = None  # used in place of the stored ones: random, or changed
    random: int | None = None  # the seed of random weights; None: they are trained
    lent: bool = False  # it was open before `with`, and stays so

    @classmethod
    def open(cls, source: Any) -> Model:
        """Open a checkpoint (`opening`), checked against its config; it may be open already."""
        if isinstance(source, Model):
            if source.random is not None:
                raise CheckpointError(
                    f"model {quote(source.name)} has random weights; give a checkpoint"
                )
            return replace(source, lent=True)
        with ExitStack() as failing:
            model = described(failing.enter_context(opened(source)))
            failing.pop_all()
        return model

    @classmethod
    def drawn(
        cls, spec: Transformer, seed: int, name: str, family: str = "", folder: Path | None = None
    ) -> Model:
        """A model with random weights, as before training."""
        store = Store(folder, {}, name=name)
        logits = spec.with_output("logits") if spec.output == "softmax" else spec
        tensors = Drawn(logits, seed)
        return cls(store, family, logits, {}, design=spec, tensors=tensors, random=seed)

    def __enter__(self) -> Self:
        self._inside = ExitStack()
        self._inside.push(self.close)
        self._inside.enter_context(threads_for(self.spec.d))
        return self

    def __exit__(self, *raised: Any) -> None:
        self._inside.__exit__(*raised)

    def close(self, *raised: Any) -> None:
        """Close the files, if they were opened for this; refused if one of them was changed."""
        if self.lent:
            self.store.require_unchanged()
        else:
            self.store.__exit__(*(raised or (None, None, None)))

    def __str__(self) -> str:
        weights = "" if self.random is None else f", random weights (seed {self.random})"
        return (
            f"{shown(self.name)} ({self.family or 'transformer'}), {self.spec.layers} layers of "
            f"width {self.spec.d:,}, {self.spec.parameters:,} parameters{weights}"
        )

    @property
    def name(self) -> str:
        """Its name: what was given, or a description."""
        return self.store.name

    @property
    def folder(self) -> Path | None:
        """The directory of its config, if it has one; a tokenizer may be there."""
        return self.store.directory

    @cached_property
    def trunk(self) -> Model:
        """The model up to its last hidden states; all other tensors of the files are ignored."""
        if self.random is not None:
            own = Model.drawn(self.spec.trunk(), self.random, self.name, self.family, self.folder)
            return replace(own, lent=self.lent)
        if self.tensors is not None:
            return replace(self, spec=self.spec.trunk())
        return replace(described(self.store, trunk=True), lent=self.lent)

    def require_memory(self, what: str, needed: int, limit: int) -> None:
        """Raise an error that names the memory needed, if it is over the limit."""
        if needed > limit:
            raise TooLargeError(
                f"model {quote(self.name)}: {self.spec.parameters:,} parameters; {what} need "
                f"{needed / 2**30:,.1f} GiB, over the limit of {limit / 2**30:,.1f} GiB; "
                "raise the limit with --memory, or choose a smaller model"
            )

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "model": shown(self.name),
            "weights": "trained" if self.random is None else "random",
            "seed": self.random,
            "layers": self.spec.layers,
            "width": self.spec.d,
            "heads": self.spec.heads,
            "parameters": self.spec.parameters,
        }

    @property
    def files(self) -> list[tuple[str, Held, Entry]]:
        """The tensors of the files: the part of each, what it holds, and its entry."""
        every = ((part, held) for part, own in self.held.items() for held in own)
        return [(part, held, self.store.entries[held.file]) for part, held in every]

    @property
    def where(self) -> dict[str, str]:
        """By tensor of the spec, the last tensor of the files that holds it."""
        return {name: held.file for _, held, _ in self.files for name in held.names}

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
        if self.tensors is not None:
            return self.tensors.part(part, names, dtype)
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
        if self.tensors is not None:
            return self.tensors.columns(name, which, dtype)
        held = next(held for held in self.held["embed"] if name in held.names)
        plain = held == Held.of(Stored((name,), columns=True), held.file, held.shapes)
        if type(self) is not Model or not plain:
            return self.part("embed", [name], dtype)[name][:, which]
        return self.store.picked(held.file, which, dtype).T

    def roundoff(self) -> float:
        """The largest relative rounding error of the types in which weights are stored."""
        return unit_roundoff(coarsest(self))


def coarsest(*models: Model) -> DType:
    """The type with the largest rounding error in which any of them stores a weight."""
    types = {entry.dtype for model in models for *_, entry in model.files}
    return max(types, key=unit_roundoff)


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
    name, named = store.name, store.config.get("architectures")
    config = {key: x for key, x in store.config.items() if not (trunk and key == "architectures")}
    file = name if store.directory is None else str(store.directory / CONFIG)
    spec = design = from_config(config, file, defaults=False)
    if trunk:
        spec = spec.trunk()
    if spec.output == "softmax":
        spec = spec.with_output("logits")
    family = family_of(store.config)
    kind = family.model_type
    model = Model(store, kind, spec, layout(spec, kind, store.config), design=design)
    left = dict(store.entries)
    others = layout(spec, kind, store.config, instead=True)
    for part, every in model.held.items():
        chosen = _instead(family, every, others[part], left)
        model.held[part] = [_found(family, held, left, name) for held in chosen]
    if trunk:
        return model
    model.copies = _copies(model, family, left, compare)
    model.carried = _take(left, lambda key: key.endswith(family.buffers) or 0 in left[key].shape)
    unused = tuple(start.format(layers=spec.layers) for start in family.unused)
    if any("language_model." in held.file for _, held, _ in model.files):
        unused += BESIDE
    starts = tuple(before + part for before in (family.prefix, *BEFORE) for part in unused)
    model.unused = _take(left, lambda key: key.startswith(starts))
    if left:
        title = named[0] if isinstance(named, list) and named else "(not named in config.json)"
        raise refusal(
            name,
            f"tensor {min(left)!r} is not part of a {kind} model of class {title}; allowed: the "
            "tensors of that class",
        )
    return model


def _take(left: dict[str, Entry], chosen: Callable[[str], bool]) -> tuple[str, ...]:
    found = tuple(key for key in left if chosen(key))
    for key in found:
        del left[key]
    return found


def _instead(
    family: Family, every: list[Held], others: list[Held], left: Mapping[str, Entry]
) -> list[Held]:
    """The tensors of a part; those of `others` replace equivalent ones if the files have them."""
    there = [held for held in others if any(file in left for file in family.names(held.file))]
    same = {name for held in there for name in held.names}
    return [held for held in every if not same & set(held.names)] + there


def _found(family: Family, held: Held, left: dict[str, Entry], name: str) -> Held:
    """A tensor under its name in the file."""
    file = next((file for file in family.names(held.file) if file in left), None)
    if file is None:
        raise refusal(name, f"tensor {held.file!r} is missing")
    entry, due = left.pop(file), list(held.stored_shape)
    problem = ""
    if list(entry.shape) != due:
        problem = f"has shape {list(entry.shape)}, but config.json requires {due}"
    elif entry.dtype.kind not in "fV":
        problem = f"has type {entry.dtype}; allowed: floating-point types"
    if problem:
        raise refusal(name, f"tensor {file!r} {problem}")
    return replace(held, file=file)


def _copies(model: Model, family: Family, left: dict[str, Entry], compare: bool) -> dict[str, str]:
    """Tied tensors that are in the files twice; they must agree."""
    out, where = {}, model.where
    for said, original in family.copies.items() if model.spec.tied else ():
        file = next((name for name in family.names(said) if name in left), "")
        if file and original in where:
            del left[file]
            out[file] = where[original]
    for pair in out.items() if compare else ():
        a, b = (model.store.raw(name) for name in pair)
        if a.shape != b.shape or a.dtype != b.dtype or not np.array_equal(bits(a), bits(b)):
            said = "config.json says that {!r} and {!r} are tied, but they differ".format(*pair)
            raise refusal(model.name, said)
    return out


def bits(stored: Array) -> Array:
    """A stored tensor as unsigned integers, to compare number by number."""
    return stored.view(np.dtype(f"u{stored.dtype.itemsize}"))
