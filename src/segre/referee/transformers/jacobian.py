"""Which rows has the Jacobian of a transformer? Section 5, over any numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from segre.referee.network import Progress
from segre.referee.transformers.forward import record
from segre.referee.transformers.numbers import Matrix, Numbers, Salts
from segre.referee.transformers.recording import gradients
from segre.referee.transformers.tensors import Key
from segre.referee.transformers.weights import Layout

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
    return gradients(
        layout,
        numbers,
        rows,
        lambda n: record(layout.spec, numbers, weights, *inputs(n)),
        progress,
    )
