"""The tangent space of a conditional-independence variety at a random point mod p."""

from __future__ import annotations

import numpy as np

from segre.fields.draw import Stream
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.variety.ci_components import Component
from segre.variety.ci_grid import Grid


def tangent(grid: Grid, component: Component, seed: int = 0) -> int:
    """Dimension of the tangent space of V at a random point mod p of a component.

    The gradients of the r-minors of a matrix A of rank r - 1 span the matrices u v^T with u^T A = 0
    and A v = 0; at a matrix of smaller rank they are zero.
    """
    field = Prime(seed=seed)
    drawn = 0

    def draw(shape: tuple[int, ...]) -> Array:
        nonlocal drawn
        found = field.residues(field.draw(Stream.WEIGHTS, drawn, shape))
        drawn += found.size
        return found.astype(object)

    x = component.point(draw) % field.p
    if grid.family == "zeros, transposed":
        x = x.swapaxes(1, 2)
    x = field.constant(x.astype(np.int64))
    places = np.arange(x.size).reshape(x.shape)
    space = Echelon(x.size, field)
    for r, lines in (
        (grid.s, [(slice(None), slice(None), j) for j in range(grid.l)]),
        (grid.t, [(slice(None), i, slice(None)) for i in range(grid.k)]),
    ):
        for line in lines:
            left, right = _kernel(field, x[line].T), _kernel(field, x[line])
            if len(x[line]) - len(left) == r - 1 and left.size and right.size:
                rows = np.zeros((len(left) * len(right), x.size))
                products = field.mul(left[:, None, :, None], right[None, :, None, :])
                rows[:, places[line].reshape(-1)] = products.reshape(len(rows), -1)
                space.add(rows)
    return int(x.size - space.rank)


def _kernel(field: Prime, matrix: Array) -> Array:
    space = Echelon(matrix.shape[1], field)
    space.add(np.ascontiguousarray(matrix))
    return field.reduce(space.kernel())
