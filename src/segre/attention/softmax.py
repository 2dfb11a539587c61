"""Softmax attention: exponentials of the scores, each column divided by its sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segre.attention.mechanism import Mechanism

if TYPE_CHECKING:  # specs name mechanisms, and reading a spec must not take NumPy
    from segre.fields.interface import Array, E, Field


def softmax(
    field: Field[E],
    scores: E,
    seen: E | None = None,
    used: Array | None = None,
    sink: bool = False,
) -> E:
    """exp(scores), each column divided by its sum; with `seen` (zeros and ones), only there.

    With `sink` the sum has one more term, that of a score of 0.
    """
    return field.softmax(scores, seen, used, sink)


SOFTMAX = Mechanism(
    "softmax",
    softmax,
    exponentials=True,
    sums_to_one=True,
    non_negative=True,
    ignores_shifts=True,
    closed_form=True,
)
