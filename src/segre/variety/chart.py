"""Which weights of a network can be fixed without losing functions?

A chart fixes weights at 0 or 1 until as many are free as the functions have dimensions. If the
Jacobian by the free weights still has that rank at one point, the functions of the chart are dense
among all functions, and almost all of them have finitely many weights there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from flint import nmod_mat

from segre.fields.draw import Stream
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.network import forward, jacobian
from segre.polynomial.spec import Polynomial

Fixed = tuple[int | None, ...]


def chart(spec: Polynomial, dimension: int, field: Prime) -> Fixed:
    """For each weight its fixed value, or None: exactly `dimension` weights are free.

    Scales of hidden units fix one weight of each; larger symmetries fix more. Here three weights
    of M = W^T C W are fixed, since a rotation of W does not change M.

    >>> chart(Polynomial.parse("poly/3-2-1/degree=2"), 5, Prime())
    (0, 1, None, 1, None, None, None, None)
    """
    fixed: list[int | None] = [None] * spec.parameters
    for place in range(spec.parameters):
        if sum(value is None for value in fixed) == dimension:
            break
        for value in (0, 1):
            fixed[place] = value
            if rank_at(spec, fixed, field) == dimension:
                break
        else:
            fixed[place] = None
    return tuple(fixed)


def cone_chart(spec: Polynomial, fixed: Fixed, dimension: int, field: Prime) -> Fixed | None:
    """The same with one more weight fixed, so that all multiples of its functions are dense."""
    for place in reversed(range(spec.parameters)):
        if fixed[place] is None:
            one = (*fixed[:place], 1, *fixed[place + 1 :])
            if rank_at(spec, one, field, multiples=True) == dimension:
                return one
    return None


def rank_at(
    spec: Polynomial, fixed: Sequence[int | None], field: Prime, *, multiples: bool = False
) -> int:
    """The rank of the Jacobian by the free weights at a random point; also by a scale."""
    weights = field.draw(Stream.WEIGHTS, 0, (spec.parameters,))
    free = [i for i, value in enumerate(fixed) if value is None]
    for i, value in enumerate(fixed):
        if value is not None:
            weights[i] = value
    X = field.draw(Stream.INPUTS, 0, (spec.parameters + 1, spec.width_in, 1))
    rows = jacobian(field, spec, weights, X)[..., free].reshape(-1, len(free))
    if multiples:
        rows = np.concatenate([rows, forward(field, spec, weights, X).reshape(-1, 1)], axis=1)
    return _rank(field.residues(rows), field.p)


def _rank(rows: Array, p: int) -> int:
    if not rows.size:
        return 0
    height, width = rows.shape
    return int(nmod_mat(height, width, rows.reshape(-1).tolist(), p).rank())
