"""A random point of the fiber of a checkpoint: all free choices drawn, with bounded conditions."""

from __future__ import annotations

from collections.abc import Iterator

from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.fields.interface import Array
from segre.symmetry.action import RandomMove


def moved_parts(model: Model, seed: int) -> Iterator[tuple[str, Tensors]]:
    """The parts of a checkpoint, each acted on by a random element of the whole group."""

    def read(tensor: tuple[str, str]) -> Array:
        part, name = tensor
        return model.part(part, [name])[name]

    move = RandomMove(model.spec, seed, read)
    for part in model.parts:
        w = model.part(part)
        move.part(part, w)
        yield part, w
