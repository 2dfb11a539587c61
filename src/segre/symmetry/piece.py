"""A family of symmetries, and the canvas its generators are written on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from segre.architectures import Architecture
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.finding import Symmetry
from segre.network import tensors
from segre.spec import Network
from segre.stack.stages import named
from segre.stage import Slot
from segre.symmetry.passage import Passage
from segre.transformer.spec import Transformer

Group = Literal["QK", "VO", "MLP", "norms and biases", "shifts", "residual"]
Holds = Literal["exact", "eps=0", "softmax"]


class Head(NamedTuple):
    """A head of a stack: its layer as a part, its group, and its place there (from 0)."""

    part: str
    group: int
    number: int


class ModularWeights:
    """The tensors of an architecture at weights mod p."""

    def __init__(
        self, field: Prime, spec: Architecture, vector: Array, head: Head | None = None
    ) -> None:
        """With a `head`, the tensors are those of this head of a stack, named without a part."""
        self.field, self.spec, self.vector, self.head = field, spec, vector, head
        self.slots: Mapping[tuple[str, str], Slot] = tensors(spec)

    def __call__(self, part: str, name: str) -> Array:
        """A tensor, by part and name."""
        slot = self.slots[_whole(self.head, part, name)]
        tensor = self.vector[slot.range].reshape(slot.shape)
        return tensor if self.head is None else tensor[self.head.number]

    def holds(self, _tensor: tuple[str, str]) -> bool:
        """Whether a tensor is there. Here all of them are."""
        return True

    def of_head(self, head: Head) -> ModularWeights:
        """The tensors of one head of a stack."""
        return ModularWeights(self.field, self.spec, self.vector, head)

    def canvas(self, count: int) -> Canvas:
        """Room for `count` generators."""
        return Canvas(self.slots, count, len(self.vector), self.head)

    def inverse(self, part: str, name: str) -> Array:
        """The entrywise inverse of a tensor, such as a gain."""
        return self.field.reciprocal(self(part, name))

    @property
    def stack(self) -> Network:
        """The architecture, which is a stack."""
        return cast(Network, self.spec)

    @property
    def transformer(self) -> Transformer:
        """The architecture, which is a transformer."""
        return cast(Transformer, self.spec)

    @cached_property
    def passage(self) -> Passage:
        """What passes through each layer of a stack."""
        return Passage(self.field, self.stack, self)


class Canvas:
    """Generators under construction: a zero matrix with a view of every weight tensor."""

    def __init__(
        self,
        slots: Mapping[tuple[str, str], Slot],
        count: int,
        parameters: int,
        head: Head | None = None,
    ) -> None:
        self.slots, self.rows, self.head = slots, np.zeros((count, parameters)), head

    def __call__(self, part: str, name: str) -> Array:
        """A tensor in every generator: (count, *shape)."""
        slot = self.slots[_whole(self.head, part, name)]
        tensor = self.rows[:, slot.range].reshape(-1, *slot.shape)
        return tensor if self.head is None else tensor[:, self.head.number]


def _whole(head: Head | None, part: str, name: str) -> tuple[str, str]:
    return (part, name) if head is None else (head.part, named(head.group, name))


@dataclass(frozen=True)
class Given:
    """Generators by a formula of their own, and the entries with which a certificate lists them."""

    entries: tuple[dict[str, Any], ...]
    build: Callable[[ModularWeights], Array]

    def __call__(self, w: ModularWeights) -> Array:
        """The generators."""
        return self.build(w)


@dataclass(frozen=True)
class Piece:
    """A named family of symmetries.

    `count` is how many dimensions it adds to the pieces before it for generic weights of
    generic sizes; None if there is no formula. Layers and heads are counted from 1.
    """

    kind: str
    name: str
    where: str
    group: Group
    holds: Holds
    count: int | None
    build: Callable[[ModularWeights], Array]
    layer: int | None = None
    head: int | None = None
    hard: bool = False  # it holds for token sequences, and not for soft ones

    def symmetry(self, dimension: int) -> Symmetry:
        """The piece in words, with a dimension."""
        return Symmetry(self.name, self.where, dimension, self.group, self.holds)
