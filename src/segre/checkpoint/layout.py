"""The tensors of an architecture in the files of a checkpoint: packed, and unpacked.

`segre.models` describes where each tensor lies, family by family; this module moves the numbers.

>>> from segre.models import architecture
>>> spec = architecture("llama/d=4/heads=2/head=2/ff=3/vocab=5/t=3")
>>> [held.file for held in layout(spec, "llama")["1"]][:2]
['model.layers.0.input_layernorm.weight', 'model.layers.0.self_attn.q_proj.weight']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.models.config import Config
from segre.models.registry import family_of
from segre.models.stored import MAPS, Names, Stored
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes, parts

Tensors = dict[str, Array]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Held(Stored):
    """One tensor of a file, and the shapes of the tensors of the spec that it holds."""

    file: str = ""
    shapes: tuple[Shape, ...] = ()

    @classmethod
    def of(cls, how: Stored, file: str, shapes: Iterable[Shape]) -> Held:
        """A tensor of a file that lies there as a family says."""
        return cls(**vars(how), file=file, shapes=tuple(shapes))

    @property
    def label(self) -> str:
        """A name for its contents, the same in all checkpoints of an architecture."""
        member = () if self.member is None else (str(self.member),)
        return "/".join((*self.names, *member))

    @property
    def meaning(self) -> tuple[float, float]:
        """What the numbers of the file are multiplied by, and what is added to them."""
        return self.times, self.plus

    @property
    def stored_shape(self) -> Shape:
        """The shape in the file: a vector or a matrix, or a stack of those, unless it says."""
        rows, columns = sum(n for n, _ in self._matrices()), self._matrices()[0][1]
        own = (rows // self._count, columns)[: 1 if _is_vector(self.names[0]) else 2]
        stack = (self._count,) if self.stacked else ()
        return self.lies or (*stack, *(own[::-1] if self.columns else own))

    def unpack(self, stored: Array) -> Tensors:
        """The tensors of the spec from the tensor of the file, or the part that it holds."""
        columns = self._matrices()[0][1]
        matrix: Array = stored.reshape(
            self._count, *((columns, -1) if self.columns else (-1, columns))
        )
        if self.columns:
            matrix = matrix.swapaxes(-1, -2)
        if self.times != 1:
            matrix = matrix * self.times
        if self.plus:
            matrix = matrix + self.plus
        matrix = matrix.reshape(self._groups, -1, columns)
        if self.alternate:
            count = len(self.names)
            blocks = [np.ascontiguousarray(matrix[:, i::count]) for i in range(count)]
        else:
            rows = [rows // self._groups for rows, _ in self._matrices()]
            blocks = np.split(matrix, np.cumsum(rows)[:-1], axis=1)
        every = zip(self.names, blocks, self._own_shapes(), strict=True)
        return {
            name: _split_heads(block[0], shape) if name == "W_O" else block.reshape(shape)
            for name, block, shape in every
        }

    def pack(self, tensors: Tensors) -> Array:
        """The file's tensor from those of the spec; inverse of `unpack`."""
        blocks = []
        for name, (rows, columns) in zip(self.names, self._matrices(), strict=True):
            tensor = tensors[name]
            if self.member is not None:
                tensor = tensor[self.member]
            block = _join_heads(tensor) if name == "W_O" else tensor.reshape(rows, columns)
            blocks.append(block.reshape(self._groups, -1, columns))
        if self.alternate:
            matrix = np.stack(blocks, axis=2)
        else:
            matrix = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        matrix = matrix.reshape(self._count, -1, matrix.shape[-1])
        if self.plus:
            matrix = matrix - self.plus
        if self.times != 1:
            matrix = matrix / self.times
        return (matrix.swapaxes(-1, -2) if self.columns else matrix).reshape(self.stored_shape)

    @property
    def _count(self) -> int:
        """How many matrices the file has: the members of a stack, or one."""
        return self.shapes[0][0] if self.stacked else 1

    @property
    def _groups(self) -> int:
        """How many groups of rows follow each other: members of a stack, heads, or one."""
        if self.by_head and not self.stacked:
            return min(prod(shape[:-2]) for shape in self.shapes)
        return self._count

    def put(self, found: Tensors, into: Tensors) -> None:
        """Add the results of `unpack` to the tensors of a part."""
        member = self.member
        for name, shape in zip(self.names, self.shapes, strict=True):
            if member is None:
                into[name] = found[name]
            else:
                whole = into.setdefault(name, np.empty(shape, found[name].dtype))
                whole[member] = found[name]

    def _own_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the tensors of the spec, or of the one member that the file has of them."""
        return self.shapes if self.member is None else tuple(s[1:] for s in self.shapes)

    def _matrices(self) -> list[tuple[int, int]]:
        """Rows and columns of the tensors as matrices: heads are rows, but columns of W_O."""
        every = zip(self.names, self._own_shapes(), strict=True)
        return [
            (s[-2], prod(s) // s[-2]) if name == "W_O" else (prod(s[:-1]), s[-1])
            for name, s in every
        ]


def place_of(part: str) -> str:
    """A part as reports name it: layer 3."""
    return f"layer {part}" if part.isdigit() else part


def _is_vector(name: str) -> bool:
    return name.startswith(("b_", "c_")) or name.endswith((".gain", ".bias")) or name == "sinks"


def _split_heads(matrix: Array, shape: Shape) -> Array:
    kv, group, d, v = shape
    return matrix.reshape(d, kv, group, v).transpose(1, 2, 0, 3)


def _join_heads(W_O: Array) -> Array:
    kv, group, d, v = W_O.shape
    return W_O.transpose(2, 0, 1, 3).reshape(d, kv * group * v)


def layout(
    spec: Transformer,
    family: str,
    config: Mapping[str, Any] | None = None,
    *,
    instead: bool = False,
) -> dict[str, list[Held]]:
    """The tensors of the files by part of the spec; `config` has what a spec does not say.

    With `instead`, those that only some files have, in place of others that hold the same.
    """
    said = Config(config or {}, family_of({"model_type": family}))
    out = {
        part: [
            held
            for held in _part(spec, part, said.family.stored(spec, part, said))
            if held.instead == instead
        ]
        for part in parts(spec)
    }
    for part, every in out.items():
        assert instead or {n for held in every for n in held.names} >= {*part_shapes(spec, part)}
    return out


def _part(spec: Transformer, part: str, names: Names) -> Iterator[Held]:
    """Those that hold something of the part: maps of experts, or else of one MLP."""
    shapes = part_shapes(spec, part)
    routed = {f"W_{name}": len(shapes.get(f"W_{name}", ())) == 3 for name in MAPS}
    for file, how in names.items():
        if how.shape:
            if "W_R" in shapes:
                yield Held.of(how, file, [how.shape])
            continue
        own = (name for name in how.names if name in shapes)
        inside = tuple(name for name in own if routed.get(name, how.routed) == how.routed)
        if inside:
            yield Held.of(replace(how, names=inside), file, (shapes[name] for name in inside))
