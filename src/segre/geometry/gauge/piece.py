"""A family of symmetries, and the canvas its generators are written on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors

Group = Literal["QK", "VO", "MLP", "norms and biases", "shifts", "residual"]
Holds = Literal["exact", "eps=0", "softmax"]


class Weights:
    """The tensors of a transformer at weights mod p."""

    def __init__(self, field: Prime, spec: Transformer, vector: Array) -> None:
        self.field, self.spec, self.vector = field, spec, vector

    def __call__(self, part: str, name: str) -> Array:
        """A tensor, by part and name."""
        slot = tensors(self.spec)[part, name]
        return self.vector[slot.range].reshape(slot.shape)

    def canvas(self, count: int) -> Canvas:
        """Room for so many generators."""
        return Canvas(self.spec, count)

    def inverse(self, part: str, name: str) -> Array:
        """The entrywise inverse of a tensor, such as a gain."""
        return self.field.reciprocal(self(part, name))


class Canvas:
    """Generators under construction: a zero matrix with a view of every weight tensor."""

    def __init__(self, spec: Transformer, count: int) -> None:
        self.spec = spec
        self.rows = np.zeros((count, spec.parameters))

    def __call__(self, part: str, name: str) -> Array:
        """A tensor in every generator: (count, *shape)."""
        slot = tensors(self.spec)[part, name]
        return self.rows[:, slot.range].reshape(-1, *slot.shape)


@dataclass(frozen=True)
class Piece:
    """A named family of symmetries.

    `count` is how many dimensions it adds to the pieces before it for generic weights of
    generic sizes.
    """

    kind: str
    name: str
    where: str
    group: Group
    holds: Holds
    count: int
    build: Callable[[Weights], Array]
