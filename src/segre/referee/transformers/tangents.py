"""How is a tangent vector of a transformer written down? The notation of section 9."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from flint import nmod_mat

from segre.referee.rejection import RejectionError
from segre.referee.transformers.forward import record
from segre.referee.transformers.modular import Modular
from segre.referee.transformers.numbers import Salts
from segre.referee.transformers.point import Anywhere, Family, Tangent, together
from segre.referee.transformers.recording import Recording
from segre.referee.transformers.stages import sources
from segre.referee.transformers.stream import Norm, Reader, Stream
from segre.referee.transformers.tensors import Key, Place
from segre.referee.transformers.weights import Layout

__all__ = ["Family", "Point", "Tangent", "together"]


class Point(Anywhere):
    """The weights of stream 0 mod p, and how tangents are made of them."""

    def __init__(self, layout: Layout, field: Modular) -> None:
        super().__init__(layout, field)
        self.layout = layout
        self.spec = layout.spec
        self.stream = Stream(layout)
        self.sources, self.tokens, self.rows = sources(self.spec), self.spec.t, self.spec.d

    def input(self, number: int, salts: Sequence[Salts]) -> nmod_mat:
        """Input `number` mod p; soft if there is a vocabulary."""
        spec = self.spec
        if spec.vocab:
            return self.field.soft_input(number, spec.vocab, spec.types, salts[0])
        return self.field.input(number, spec.patch or spec.d, salts[0])

    def record(
        self, weights: Mapping[Key, nmod_mat], inputs: nmod_mat, salts: Sequence[Salts]
    ) -> Recording:
        """The transformer with these weights, evaluated mod p."""
        return record(self.spec, self.field, weights, inputs, salts)

    def with_bias(self, part: int, letter: str, number: int) -> list[Key]:
        """[W, b] of one head or group: the two that change alike."""
        keys = [(part, f"W_{letter}", number), (part, f"b_{letter}", number)]
        return [key for key in keys if key in self.matrices]

    # Tangents of given matrices.

    def itself(self, places: Iterable[Place], factor: int = 1) -> Tangent:
        """dT = T times a factor."""
        return {key: self.matrices[key] * factor for key in self.keys(places)}

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
