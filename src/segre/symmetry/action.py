"""The finite action on weights of floats: a random element of the whole group, and its inverse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import Piece
from segre.symmetry.basis import Basis, Scale
from segre.symmetry.constants import Constants, Entries, Several, Slack
from segre.symmetry.finite import Order, finite
from segre.symmetry.space import FloatWeights
from segre.transformer.spec import Transformer

Actor = Basis | Scale | Constants | Slack | Entries | Order
Move = list[tuple[Actor, Array]]  # what acts, and by which element, in order


def freedoms(spec: Transformer, pieces: Iterable[Piece]) -> Iterator[Actor]:
    """All that acts as a group: constants and slack first, then bases and scales, then orders."""
    every: list[object] = []
    for piece in pieces:
        every += piece.build.free if isinstance(piece.build, Several) else (piece.build,)
    for kinds in ((Slack, Entries), (Constants,), (Basis, Scale)):
        yield from (one for one in every if isinstance(one, kinds))
    for found in finite(spec):
        yield from found.orders


def moved(
    spec: Transformer, pieces: Iterable[Piece], w: FloatWeights, rng: np.random.Generator
) -> Move:
    """Act with random elements, in place, and say with which."""
    out: Move = []
    for free in freedoms(spec, pieces):
        element = free.draw(rng, w)
        free.act(w, element)
        out.append((free, element))
    return out


def undo(w: FloatWeights, move: Move) -> None:
    """Act with the inverse elements, last first, in place."""
    for free, element in reversed(move):
        free.act(w, free.inverse(element))
