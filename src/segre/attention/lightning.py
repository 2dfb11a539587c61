"""Lightning attention: the scores as they are. A layer is a polynomial of degree three."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segre.attention.mechanism import Mechanism

if TYPE_CHECKING:  # specs name mechanisms, and reading a spec must not take NumPy
    from segre.fields.interface import Array, E, Field


def masked(
    field: Field[E],
    scores: E,
    seen: E | None = None,
    used: Array | None = None,  # noqa: ARG001 (asked of every mechanism)
    sink: bool = False,  # noqa: ARG001
) -> E:
    """The scores; with `seen` (zeros and ones), only there."""
    return scores if seen is None else field.mul(scores, seen)


LIGHTNING = Mechanism("lightning", masked, bilinear=True, closed_form=True)
