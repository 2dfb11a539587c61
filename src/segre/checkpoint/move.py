"""A random point of the fiber of a checkpoint: all free choices drawn, with bounded conditions."""

from __future__ import annotations

from collections.abc import Iterator

from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.symmetry.move import RandomMove


def moved_parts(model: Model, seed: int) -> Iterator[tuple[str, Tensors]]:
    """The parts of a checkpoint at a random point of its fiber."""
    move = RandomMove(
        model.spec, seed, lambda tensor: model.part(tensor[0], [tensor[1]])[tensor[1]]
    )
    for part in model.parts:
        tensors = model.part(part)
        move.part(part, tensors)
        yield part, tensors
