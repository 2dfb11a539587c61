"""At which weights mod p is a mixed stack checked? Sections H4 and H8."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from flint import nmod_mat

from segre.referee.mixed.forward import record
from segre.referee.mixed.spans import Spans, parallel
from segre.referee.mixed.weights import Layout
from segre.referee.transformers.modular import Modular
from segre.referee.transformers.numbers import Salts
from segre.referee.transformers.point import Anywhere, Tangent
from segre.referee.transformers.recording import Recording
from segre.referee.transformers.tensors import Key


class Point(Anywhere):
    """The weights of stream 0 mod p, and how tangents are made of them."""

    def __init__(self, layout: Layout, field: Modular) -> None:
        super().__init__(layout, field)
        spec = layout.spec
        self.layout = layout
        self.sources, self.tokens = len(spec.layers) + 1, spec.t
        self.rows = spec.layers[0].width_in
        self.parallel = parallel(layout)

    def input(self, number: int, salts: Sequence[Salts]) -> nmod_mat:
        """Input `number` mod p."""
        return self.field.input(number, self.rows, salts[0])

    def record(
        self, weights: Mapping[Key, nmod_mat], inputs: nmod_mat, salts: Sequence[Salts]
    ) -> Recording:
        """The stack with these weights, evaluated mod p."""
        return record(self.layout, self.field, weights, inputs, salts)

    def spans(self) -> Spans:
        """What reaches and what is read after each layer."""
        return Spans(self.layout, self.matrices, self.p)

    # Tangents.

    def itself(self, keys: Iterable[Key], factor: int = 1) -> Tangent:
        """dT = T times a factor."""
        return {key: self.matrices[key] * factor for key in keys}

    def entries(self, keys: Iterable[Key]) -> Iterator[Tangent]:
        """Every single entry of these matrices."""
        for key in keys:
            T = self.matrices[key]
            for r in range(T.nrows()):
                for c in range(T.ncols()):
                    yield self.filled(key, row=r, column=c)

    def all_ones(self, key: Key, factor: int = 1) -> Tangent:
        """dT is a number everywhere."""
        return {key: self.filled(key)[key] * factor}

    def row(self, key: Key, row: int, form: Sequence[int]) -> Tangent:
        """One row of dT is a form."""
        T = self.matrices[key]
        result = self.zero(T.nrows(), T.ncols())
        for c, value in enumerate(form):
            result[row, c] = value
        return {key: result}

    def column(self, key: Key, column: int, vector: Sequence[int]) -> Tangent:
        """One column of dT is a vector."""
        T = self.matrices[key]
        result = self.zero(T.nrows(), T.ncols())
        for r, value in enumerate(vector):
            result[r, column] = value
        return {key: result}
