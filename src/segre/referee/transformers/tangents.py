"""How is a tangent vector of a transformer written down? The notation of section 9."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flint import nmod_mat

from segre.referee.meter import RESIDUES, charge
from segre.referee.rejection import RejectionError
from segre.referee.transformers.modular import Modular
from segre.referee.transformers.stream import Norm, Reader, Stream
from segre.referee.transformers.weights import Key, Layout, Place

Tangent = dict[Key, nmod_mat]
Family = Iterator[tuple[str, Tangent]]


def together(*tangents: Tangent) -> Tangent:
    """The sum of tangent vectors."""
    result: Tangent = {}
    for tangent in tangents:
        for key, matrix in tangent.items():
            result[key] = result[key] + matrix if key in result else matrix
    return result


def _product(A: nmod_mat, B: nmod_mat) -> nmod_mat:
    charge(RESIDUES.matmul(A.nrows(), A.ncols(), B.ncols()))
    return A * B


class Point:
    """The weights of stream 0 mod p, and how tangents are made of them."""

    def __init__(self, layout: Layout, field: Modular) -> None:
        self.layout = layout
        self.spec = layout.spec
        self.field = field
        self.stream = Stream(layout)
        self.matrices = layout.matrices(field, field.weights(layout.parameters))

    def has(self, place: Place) -> bool:
        """Whether there is such a tensor."""
        return place in self.layout.by_place

    def keys(self, places: Iterable[Place]) -> list[Key]:
        """The matrices of tensors; those that do not exist are left out."""
        known = self.layout.by_place
        return [key for place in places if place in known for key in known[place].keys]

    def with_bias(self, part: int, letter: str, number: int) -> list[Key]:
        """[W, b] of one head or group: the two that change alike."""
        keys = [(part, f"W_{letter}", number), (part, f"b_{letter}", number)]
        return [key for key in keys if key in self.matrices]

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

    def itself(self, places: Iterable[Place], factor: int = 1) -> Tangent:
        """dT = T times a factor."""
        return {key: self.matrices[key] * factor for key in self.keys(places)}

    def left(self, keys: Iterable[Key], S: nmod_mat) -> Tangent:
        """dT = S T."""
        return {key: _product(S, self.matrices[key]) for key in keys}

    def right(self, keys: Iterable[Key], S: nmod_mat) -> Tangent:
        """dT = T S."""
        return {key: _product(self.matrices[key], S) for key in keys}

    def filled(self, key: Key, *, row: int | None = None, column: int | None = None) -> Tangent:
        """dT is 1 in one row, in one column, or everywhere."""
        T = self.matrices[key]
        result = self.zero(T.nrows(), T.ncols())
        for r in range(T.nrows()) if row is None else (row,):
            for c in range(T.ncols()) if column is None else (column,):
                result[r, c] = 1
        return {key: result}

    def shifted(self, source: Place, value: int, *, row: int | None = None) -> Tangent:
        """A shift source that adds a value to all tokens, in one dimension or in all."""
        key = (*source, 0)
        if source[1] == "tokens" and self.spec.embscale:
            scale = self.field.root_of_width(self.spec.d)
            if scale == 0:
                raise RejectionError("the point is unusable: a division by zero mod p")
            value *= pow(scale, -1, self.p)
        return {key: self.filled(key, row=row)[key] * value}

    def column_of(self, key: Key, column: int, factor: int = 1) -> nmod_mat:
        """A column of a matrix, times a factor."""
        T = self.matrices[key]
        return nmod_mat(T.nrows(), 1, [T[r, column] * factor for r in range(T.nrows())], self.p)

    def columns_scaled(self, reader: Reader, column: int) -> Tangent:
        """Column i of the tangent is minus column i of the reader."""
        keys = self.keys([reader.weight])
        size = self.layout.by_place[reader.weight].columns
        return self.right(keys, self.unit(size, (column, column, -1)))

    @property
    def p(self) -> int:
        """The prime."""
        return self.field.prime

    # Norms.

    def gain(self, norm: Norm | None, width: int) -> tuple[nmod_mat, nmod_mat]:
        """Gam and Gam^-1; the unit matrix without a gain."""
        if norm is None or not self.has(norm.gain):
            one = self.unit(width, *((i, i, 1) for i in range(width)))
            return one, one
        column = self.matrices[*norm.gain, 0]
        return self.field.diagonal(column), self.field.diagonal(self.field.inverses(column))

    def mean_form(self, norm: Norm) -> nmod_mat:
        """1^T Gam^-1: the form that is constant on what the norm puts out."""
        ones: nmod_mat = self.field.ones(1, norm.width)
        return ones * self.gain(norm, norm.width)[1]

    def mean_value(self, norm: Norm) -> int:
        """1^T Gam^-1 beta: the value of that form."""
        if not self.has(norm.bias):
            return 0
        return int((self.mean_form(norm) * self.matrices[*norm.bias, 0])[0, 0])

    def absorbed(self, reader: Reader, dimension: int, norm: Norm | None) -> Tangent | None:
        """How a reader undoes the shift e_i of what it reads, family 18; None if it cannot."""
        result: Tangent = {}
        for number, key in enumerate(self.keys([reader.weight])):
            column = self.column_of(key, dimension, -1)
            if reader.bias is not None:
                result[*reader.bias, number] = column
                continue
            if norm is None or not self.has(norm.bias):
                return None
            constant = self.mean_value(norm)
            if constant == 0:
                raise RejectionError("the point is unusable: a division by zero mod p")
            share = pow(constant, -1, self.p)
            result[key] = column * self.mean_form(norm) * share
        return result
