"""At which weights mod p is a network checked, and how are its tangent vectors written down?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flint import nmod_mat

from segre.referee.meter import RESIDUES, charge
from segre.referee.transformers.modular import Modular
from segre.referee.transformers.numbers import Salts
from segre.referee.transformers.recording import Recording
from segre.referee.transformers.tensors import Key, Place, Tensors

Tangent = dict[Key, nmod_mat]
Family = Iterator[tuple[str, Tangent]]


def together(*tangents: Tangent) -> Tangent:
    """The sum of tangent vectors."""
    result: Tangent = {}
    for tangent in tangents:
        for key, matrix in tangent.items():
            result[key] = result[key] + matrix if key in result else matrix
    return result


def product(A: nmod_mat, B: nmod_mat) -> nmod_mat:
    """The product of two matrices, paid for."""
    charge(RESIDUES.matmul(A.nrows(), A.ncols(), B.ncols()))
    return A * B


class Anywhere(ABC):
    """The weights of stream 0 mod p of any network, and how tangents are made of them."""

    sources: int  # how many lists of salts an input has
    tokens: int
    rows: int  # of an input of any entries

    def __init__(self, layout: Tensors, field: Modular) -> None:
        self.tensors = layout
        self.field = field
        self.matrices: dict[Key, Any] = layout.matrices(field, field.weights(layout.parameters))

    @property
    def p(self) -> int:
        """The prime."""
        return self.field.prime

    @abstractmethod
    def input(self, number: int, salts: Sequence[Salts]) -> nmod_mat:
        """Input `number` mod p."""

    @abstractmethod
    def record(
        self, weights: Mapping[Key, nmod_mat], inputs: nmod_mat, salts: Sequence[Salts]
    ) -> Recording:
        """The network with these weights, evaluated mod p."""

    def has(self, place: Place) -> bool:
        """Whether there is such a tensor."""
        return place in self.tensors.by_place

    def keys(self, places: Iterable[Place]) -> list[Key]:
        """The matrices of tensors; those that do not exist are left out."""
        known = self.tensors.by_place
        return [key for place in places if place in known for key in known[place].keys]

    # Matrices.

    def zero(self, rows: int, columns: int) -> nmod_mat:
        """The zero matrix."""
        return nmod_mat(rows, columns, self.field.prime)

    def unit(self, size: int, *entries: tuple[int, int, int]) -> nmod_mat:
        """The square matrix with these entries (row, column, value), and zeros."""
        result = self.zero(size, size)
        for row, column, value in entries:
            result[row, column] = value
        return result

    def skew(self, size: int, centred: bool = False) -> Iterator[nmod_mat]:
        """A basis of the skew matrices S, with S 1 = 0 if centred."""
        if not centred:
            for j in range(size):
                for k in range(j):
                    yield self.unit(size, (j, k, 1), (k, j, -1))
            return
        # With u_j = e_j - e_last: S = u_j u_k^T - u_k u_j^T.
        last = size - 1
        for j in range(last):
            for k in range(j):
                plus = ((j, k, 1), (k, last, 1), (last, j, 1))
                minus = ((k, j, -1), (last, k, -1), (j, last, -1))
                yield self.unit(size, *plus, *minus)

    def square(self, size: int) -> Iterator[nmod_mat]:
        """A basis of all matrices."""
        for j in range(size):
            for k in range(size):
                yield self.unit(size, (j, k, 1))

    # Tangents of given matrices.

    def left(self, keys: Iterable[Key], S: nmod_mat) -> Tangent:
        """dT = S T."""
        return {key: product(S, self.matrices[key]) for key in keys}

    def right(self, keys: Iterable[Key], S: nmod_mat) -> Tangent:
        """dT = T S."""
        return {key: product(self.matrices[key], S) for key in keys}

    def filled(self, key: Key, *, row: int | None = None, column: int | None = None) -> Tangent:
        """dT is 1 in one row, in one column, or everywhere."""
        T = self.matrices[key]
        result = self.zero(T.nrows(), T.ncols())
        for r in range(T.nrows()) if row is None else (row,):
            for c in range(T.ncols()) if column is None else (column,):
                result[r, c] = 1
        return {key: result}
