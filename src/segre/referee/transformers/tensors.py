"""Where does each weight stand? Tensors in the order of the vector of weights.

A tensor is cut into matrices, its last two axes; the axes before are numbered as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from segre.referee.transformers.numbers import Matrix, Numbers, Scalar

Place = tuple[int, str]
Key = tuple[int, str, int]
Shape = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a part of the network: so many matrices of one size."""

    part: int
    name: str
    count: int
    rows: int
    columns: int
    offset: int

    @property
    def place(self) -> Place:
        """Its name among all tensors."""
        return self.part, self.name

    @property
    def size(self) -> int:
        """How many weights it holds."""
        return self.count * self.rows * self.columns

    @property
    def keys(self) -> list[Key]:
        """The names of its matrices."""
        return [(self.part, self.name, i) for i in range(self.count)]


def laid_out(shapes: Iterable[tuple[int, Shape]]) -> Iterator[Tensor]:
    """Tensors one after the other, from their parts and shapes."""
    offset = 0
    for part, (name, count, rows, columns) in shapes:
        yield Tensor(part, name, count, rows, columns, offset)
        offset += count * rows * columns


class Tensors:
    """All tensors in the order of the vector of weights."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self.tensors = tuple(tensors)
        self.by_place = {tensor.place: tensor for tensor in self.tensors}

    @cached_property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(tensor.size for tensor in self.tensors)

    @cached_property
    def offsets(self) -> dict[Key, int]:
        """Where each matrix begins, in the order of the vector."""
        return {
            key: tensor.offset + i * tensor.rows * tensor.columns
            for tensor in self.tensors
            for i, key in enumerate(tensor.keys)
        }

    def matrices(self, numbers: Numbers, weights: Sequence[Scalar]) -> dict[Key, Matrix]:
        """A vector of weights, cut into matrices."""
        result = {}
        for tensor in self.tensors:
            size = tensor.rows * tensor.columns
            for key in tensor.keys:
                start = self.offsets[key]
                entries = weights[start : start + size]
                result[key] = numbers.matrix(tensor.rows, tensor.columns, entries)
        return result
