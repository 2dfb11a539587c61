"""What is the Jacobian of a network that was recorded on a tape? Its rows, over any numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from segre.referee.meter import charge
from segre.referee.network import Progress
from segre.referee.transformers.numbers import Matrix, Numbers, Scalar
from segre.referee.transformers.tape import Tape
from segre.referee.transformers.tensors import Tensors


@dataclass(frozen=True)
class Recording:
    """A tape on which a network was evaluated, and where on it things stand."""

    tape: Tape
    leaves: tuple[int, ...]
    output: int
    arguments: tuple[Scalar, ...]

    @property
    def value(self) -> Matrix:
        """The output."""
        return self.tape.values[self.output]

    def gradient(self, number: int) -> list[Matrix | None]:
        """The derivatives of one output entry by every weight matrix, in their order."""
        row, column = divmod(number, self.value.ncols())
        bars = self.tape.adjoints(self.output, row, column)
        return [bars[leaf] for leaf in self.leaves]


def gradients(
    layout: Tensors,
    numbers: Numbers,
    rows: Sequence[tuple[int, int]],
    recorded: Callable[[int], Recording],
    progress: Progress,
) -> Matrix:
    """Rows (input, output entry), by all weights; `recorded` evaluates the network at an input."""
    by_input: dict[int, list[int]] = {}
    for i, (n, _) in enumerate(rows):
        by_input.setdefault(n, []).append(i)
    width = layout.parameters
    charge(len(rows) * width * numbers.rates.copy)
    result = numbers.matrix(len(rows), width)
    offsets = list(layout.offsets.values())
    done = 0
    for n, members in by_input.items():
        recording = recorded(n)
        for i in members:
            charge(width * numbers.rates.entry)
            gradient = recording.gradient(rows[i][1])
            for offset, bar in zip(offsets, gradient, strict=True):
                if bar is not None:
                    for j, entry in enumerate(bar.entries(), start=offset):
                        result[i, j] = entry
            done += 1
            progress("Jacobian rows", done, len(rows))
    return result
