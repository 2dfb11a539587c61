"""Which rows has the Jacobian of a transformer? Section 5, over any numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from segre.referee.meter import charge
from segre.referee.network import Progress
from segre.referee.transformers.forward import record
from segre.referee.transformers.numbers import Matrix, Numbers, Salts
from segre.referee.transformers.weights import Key, Layout

Inputs = Callable[[int], tuple[Matrix, Sequence[Salts]]]


def jacobian(
    layout: Layout,
    numbers: Numbers,
    weights: Mapping[Key, Matrix],
    rows: Sequence[tuple[int, int]],
    inputs: Inputs,
    progress: Progress,
) -> Matrix:
    """Rows (input, output entry), by all weights; `inputs` gives an input and its salts."""
    by_input: dict[int, list[int]] = {}
    for i, (n, _) in enumerate(rows):
        by_input.setdefault(n, []).append(i)
    width = layout.parameters
    charge(len(rows) * width * numbers.rates.copy)
    result = numbers.matrix(len(rows), width, [0] * (len(rows) * width))
    offsets = list(layout.offsets.values())
    done = 0
    for n, members in by_input.items():
        recording = record(layout.spec, numbers, weights, *inputs(n))
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
