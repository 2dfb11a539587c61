"""Shrunk checkpoints as directories: one file for each part, and what expanding them takes.

Their config has a model type that no other program knows, so that none loads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segre.checkpoint.canonical import canonical_parts
from segre.checkpoint.dtypes import DTYPES, DType, dtype_name, is_float
from segre.checkpoint.folder import new_directory
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model, Progress, described, no_progress
from segre.checkpoint.overflow import on_models, within_float64
from segre.checkpoint.reading import CONFIG, INDEX
from segre.checkpoint.saving import Saving, TensorWriter, bring_along
from segre.checkpoint.shrink import STILL, Expander, Shrinker, Uniform
from segre.checkpoint.store import Entry, Store
from segre.errors import CheckpointError
from segre.files import shown
from segre.geometry.at_any_size import counted
from segre.shown import Shown
from segre.transformer.spec import Transformer
from segre.transformer.tensors import CONSTANTS, part_shapes

KIND = "segre-shrunk"
VERSION = 1


@dataclass(frozen=True)
class Shrinking(Shown):
    """What shrinking did, in numbers."""

    parameters: int
    redundant: int  # counted by formulas
    dropped: int
    bytes_before: int
    bytes_after: int
    kept: tuple[str, ...]
    directory: Path  # where it was written

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {**vars(self), "kept": list(self.kept), "directory": shown(self.directory)}


@on_models(1)
def shrink(directory: Any, target: str | Path, progress: Progress = no_progress) -> Shrinking:
    """Write the normal form of a checkpoint without its redundant entries.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     done = shrink(model, f"{folder}/small")
    >>> 0 < done.dropped <= done.redundant
    True
    """
    model: Model = directory
    with new_directory(target, model.store.inputs) as folder:
        store, shrinker = model.store, Shrinker(model.spec, model.roundoff())
        files: dict[str, str] = {}

        def write(what: str, arrays: Tensors, types: dict[str, DType]) -> None:
            file = f"shrunk-{what}.safetensors"
            plan = [Entry(n, types.get(n, x.dtype), x.shape, file) for n, x in arrays.items()]
            with TensorWriter(folder, plan) as writer:
                for name, value in arrays.items():
                    writer.write(name, value)
            files.update((entry.name, file) for entry in plan)

        bring_along(store, folder)
        for done, (part, w) in enumerate(canonical_parts(model)):
            progress("shrinking", done, len(model.parts))
            stored = {f"{part}/{name}": value for name, value in shrinker.part(part, w).items()}
            every = ((name, held.file) for held in model.held[part] for name in held.names)
            types = {f"{part}/{name}": store.entries[file].dtype for name, file in every}
            if f"{part}/W_K" in types:
                types[f"{part}/{STILL}"] = types[f"{part}/W_K"]
            write(part, stored, types)
        if model.carried:  # constants, unchanged
            write("constants", {f"carried/{name}": store.raw(name) for name in model.carried}, {})
        kept = [e for name, e in store.entries.items() if name not in model.unused]
        config = {
            "model_type": KIND,
            "version": VERSION,
            "original": store.config,
            "tensors": [[e.name, dtype_name(e.dtype), list(e.shape), e.file] for e in kept],
            "metadata": store.metadata,
            "index": store.index,
            "constants": shrinker.constants,
        }
        (folder / CONFIG).write_text(json.dumps(config))
        (folder / INDEX).write_text(json.dumps({"weight_map": files}, indent=1))
        written = [*folder.glob("shrunk-*.safetensors"), folder / INDEX, folder / CONFIG]
        return Shrinking(
            parameters=model.spec.parameters,
            redundant=sum(piece.dimension for piece in counted(model.spec).symmetries),
            dropped=shrinker.dropped,
            bytes_before=store.on_disk,
            bytes_after=sum(file.stat().st_size for file in written),
            kept=tuple(shrinker.kept),
            directory=Path(target),
        )


@dataclass
class Expanded(Model):
    """A shrunk checkpoint as a model: its parts are expanded on demand."""

    expander: Expander | None = None

    def part(
        self, part: str, names: Iterable[str] | None = None, dtype: npt.DTypeLike = np.float64
    ) -> Tensors:
        """The tensors of a part, or only the named ones."""
        assert self.expander is not None
        try:
            found = self.expander.part(part)
            shapes = {name: x.shape for name, x in found.items() if name not in CONSTANTS}
            if shapes != part_shapes(self.spec, part):
                raise ValueError(f"tensors of part {part} have other shapes")
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise _damaged(self.store, error) from None
        wanted = None if names is None else set(names)
        chosen = {n: x for n, x in found.items() if wanted is None or n in wanted}
        return {n: x.astype(dtype, copy=False) for n, x in chosen.items()}


def expand(path: str | Path, target: str | Path, progress: Progress = no_progress) -> None:
    """Rebuild the normal form, up to rounding, from `path`, a directory written by `shrink`.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     small = shrink(model, f"{folder}/small").directory
    ...     expand(small, f"{folder}/again")
    ...     (model / "config.json").exists()
    True
    """
    with within_float64(path), Store.open(path) as store:
        model = _opened(store)
        with new_directory(target, store.inputs) as folder:
            bring_along(store, folder)
            (folder / CONFIG).write_text(json.dumps(model.store.config, indent=2) + "\n")
            plan = model.store.entries.values()
            with TensorWriter(folder, plan, model.store.metadata, model.store.index) as writer:
                saving = Saving(model, writer.write)
                for name in model.carried:
                    writer.write(name, store.raw(f"carried/{name}"))
                for done, (part, w) in enumerate(canonical_parts(model)):
                    progress("expanding", done, len(model.parts))
                    saving.part(part, w)


def _opened(store: Store) -> Expanded:
    """A shrunk checkpoint; its config is checked against the architecture."""
    config = store.config
    if config.get("model_type") != KIND or config.get("version") != VERSION:
        raise CheckpointError(
            f"checkpoint {store.name!r} was not written by segre model shrink, so it cannot be "
            "expanded"
        )
    try:
        original = Store(store.directory, dict(config["original"]), config["index"])
        original.metadata = dict(config["metadata"])
        for tensor, dtype, shape, file in config["tensors"]:
            original.entries[tensor] = Entry(tensor, DTYPES[dtype], tuple(shape), file)
        model = described(original, compare=False)
        expander = Expander(model.spec, _constants(config, model.spec), partial(_arrays, store))
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise _damaged(store, error) from None
    return Expanded(**vars(model), expander=expander)


def _damaged(store: Store, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {store.name!r} is damaged ({error}); shrink the original again"
    )


def _constants(config: dict[str, Any], spec: Transformer) -> Uniform:
    """Constant tensors; none may be larger than the tensor that it stands for."""
    out: Uniform = {}
    for name, (value, shape) in config["constants"].items():
        part, _, own = name.partition("/")
        largest = spec.experts if own in CONSTANTS else prod(part_shapes(spec, part)[own])
        if not isinstance(value, float) or not np.isfinite(value):
            raise ValueError(f"constant {name}")
        if not all(isinstance(n, int) and n >= 0 for n in shape) or prod(shape) > largest:
            raise ValueError(f"shape of constant {name}")
        out[name] = [value, shape]
    return out


def _arrays(store: Store, part: str) -> Tensors:
    """The arrays of a part, by name."""
    names = [name for name in store.entries if name.startswith(f"{part}/")]
    return {
        name.partition("/")[2]: (store.read if is_float(store.entries[name].dtype) else store.raw)(
            name
        )
        for name in names
    }
