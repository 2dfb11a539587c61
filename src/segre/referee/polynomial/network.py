"""What does a polynomial network compute at a point, and how does that depend on every weight?

Sections P2 and P3. Vectors are columns in dense networks, and rows in convolutional ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flint import nmod_mat

from segre.polynomial.spec import Convolution, Polynomial
from segre.referee.meter import RESIDUES, charge
from segre.referee.network import Progress
from segre.referee.polynomial.tape import PolynomialTape
from segre.referee.residues import INPUTS, WEIGHTS, Draw


@dataclass(frozen=True, slots=True)
class Slot:
    """The weights or the biases of a layer, and where they stand among all weights."""

    layer: int
    bias: bool
    offset: int
    rows: int
    columns: int

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.rows * self.columns


def slots(spec: Polynomial) -> Iterator[Slot]:
    """All weights in their order."""
    offset = 0
    for number, layer in enumerate(spec.layers, start=1):
        if isinstance(layer, Convolution):
            rows, columns = 1, layer.kernel
        else:
            rows, columns = layer.width_out, layer.width_in
        yield Slot(number, False, offset, rows, columns)
        offset += rows * columns
        if spec.bias:
            yield Slot(number, True, offset, rows, 1)
            offset += rows


def parameter_count(spec: Polynomial) -> int:
    """The length of the vector of weights."""
    return sum(slot.size for slot in slots(spec))


class Point:
    """A network with all weights chosen in F_p."""

    def __init__(self, spec: Polynomial, draw: Draw) -> None:
        self.spec, self.draw, self.prime = spec, draw, draw.prime
        self.slots = tuple(slots(spec))
        self.parameters = sum(slot.size for slot in self.slots)
        entries = draw.residues(WEIGHTS, 0, self.parameters)
        self.tables = {
            (slot.layer, slot.bias): nmod_mat(
                *(slot.rows, slot.columns),
                *(entries[slot.offset : slot.offset + slot.size], self.prime),
            )
            for slot in self.slots
        }

    def record(self, number: int) -> tuple[PolynomialTape, list[int], int]:
        """The tape of one input, where the weights stand on it, and where the output does."""
        spec, tape = self.spec, PolynomialTape(self.prime)
        leaves = {key: tape.leaf(table) for key, table in self.tables.items()}
        wide = spec.widths[0]
        shape = (1, wide) if spec.convolutional else (wide, 1)
        v = tape.leaf(self.draw.matrix(INPUTS, number, *shape))
        for i, layer in enumerate(spec.layers, start=1):
            if isinstance(layer, Convolution):
                count = spec.widths[i]
                seen = tape.windows(v, layer.kernel, layer.stride, count)
                z = tape.product(leaves[i, False], seen)
                if spec.bias:
                    ones = tape.leaf(nmod_mat(1, count, [1] * count, self.prime))
                    z = tape.sum(z, tape.product(leaves[i, True], ones))
            else:
                z = tape.product(leaves[i, False], v)
                if spec.bias:
                    z = tape.sum(z, leaves[i, True])
            v = z if i == len(spec.layers) or spec.degree == 1 else tape.power(z, spec.degree)
        return tape, list(leaves.values()), v

    def jacobian(self, rows: Sequence[tuple[int, int]], progress: Progress) -> nmod_mat:
        """Rows (input, output entry) of the Jacobian by all weights."""
        by_input: dict[int, list[int]] = {}
        for i, (n, _) in enumerate(rows):
            by_input.setdefault(n, []).append(i)
        result = nmod_mat(len(rows), self.parameters, self.prime)
        done = 0
        for n, members in by_input.items():
            tape, leaves, output = self.record(n)
            for i in members:
                charge(self.parameters * RESIDUES.entry)
                place = (0, rows[i][1]) if self.spec.convolutional else (rows[i][1], 0)
                bars = tape.adjoints(output, *place)
                for slot, leaf in zip(self.slots, leaves, strict=True):
                    bar = bars[leaf]
                    if bar is not None:
                        for j, entry in enumerate(bar.entries(), start=slot.offset):
                            result[i, j] = entry
                done += 1
                progress("Jacobian rows", done, len(rows))
        return result
