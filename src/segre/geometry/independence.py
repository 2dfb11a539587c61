"""Are the exponentials of a softmax network algebraically independent? A check that proves it.

By Ax's theorem (1971) the exponentials of functions z_j are algebraically independent over the
field of weights and inputs as soon as the z_j, with the weights and inputs themselves, are
linearly independent over Q modulo constants. Take the difference of such a relation between
two inputs X, X' at the same weights: it suffices that the functions

    z_j(w, X) - z_j(w, X'),   X_rc - X'_rc

are linearly independent, which a non-zero determinant of their values at as many random
points (w, X, X') proves. Scores that are equal by construction (tokens of one dimension make
the scores symmetric) are one function and counted once. See docs/soundness.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.fields.draw import Stream
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.geometry.reach import reached
from segre.network import forward
from segre.spec import Network

_SPARE_POINTS = 8
_ENTRIES_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class Independence:
    """The witness: points at which the arguments and input entries have a non-zero minor."""

    arguments: int
    coordinates: int
    points: list[int]
    established: bool


class _Listener(Prime):
    """The field, taking note of every argument of an exponential."""

    def __init__(self, field: Prime) -> None:
        super().__init__(field.p, field.seed)
        self.heard: list[Array] = []

    def exp(self, x: Array) -> Array:
        self.heard.append(x)
        return super().exp(x)


def distinct_scores(spec: Network) -> list[list[tuple[int, int]]]:
    """Per layer, the (key, query) pairs whose scores are different functions."""
    t = range(spec.t)
    return [
        [(k, q) for k in t for q in t if dimension > 1 or k <= q]
        for dimension in reached(spec)[:-1]
    ]


def witness(spec: Network, field: Prime) -> Independence:
    """Look for points that prove independence; `established` says whether they were found."""
    arguments = sum(
        layer.attention.heads * len(kept)
        for layer, kept in zip(spec.layers, distinct_scores(spec), strict=True)
    )
    coordinates = spec.widths[0] * spec.t
    columns = arguments + coordinates
    space = Echelon(columns, field)
    limit = columns + _SPARE_POINTS
    batch = max(1, min(limit, _ENTRIES_AT_ONCE // (spec.parameters + 2 * coordinates)))
    for start in range(0, limit, batch):
        space.add(witness_rows(spec, field, list(range(start, min(start + batch, limit)))))
        if space.rank == columns:
            break
    return Independence(arguments, coordinates, space.pivot_rows, space.rank == columns)


def witness_rows(spec: Network, field: Prime, points: list[int]) -> Array:
    """Rows [z(w, X) - z(w, X'), X - X'] at the witness points of the given numbers."""
    P, (d, t) = spec.parameters, (spec.widths[0], spec.t)
    numbers = np.array(points, dtype=np.uint64)
    weights = field.draw(Stream.WITNESS_WEIGHTS, numbers * np.uint64(P), (1, P))
    X = field.draw(Stream.WITNESS_INPUTS, numbers * np.uint64(2 * d * t), (2, d, t))
    listener = _Listener(field)
    forward(listener, spec, weights, X)
    rows = []
    for scores, kept in zip(listener.heard, distinct_scores(spec), strict=True):
        keys, queries = np.array(kept).T
        chosen = scores[..., keys, queries].reshape(len(points), 2, -1)
        rows.append(field.sub(chosen[:, 0], chosen[:, 1]))
    rows.append(field.sub(X[:, 0], X[:, 1]).reshape(len(points), -1))
    return np.concatenate(rows, axis=1)
