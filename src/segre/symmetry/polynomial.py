"""The symmetries of networks with monomial activations.

A hidden unit can be rescaled against what reads it: its weights and bias by c, the weights of its
readers by c^-r. All outputs of a convolution are one unit. In linear networks any change of basis
between dense layers does the same, and so does the bias of a layer against the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from segre.fields.interface import Array
from segre.polynomial.spec import Convolution, Dense, Polynomial
from segre.polynomial.stages import weight_name
from segre.symmetry.piece import ModularWeights, Piece


def polynomial_pieces(spec: Polynomial) -> Iterator[Piece]:
    """The pieces between every two layers."""
    for i in range(1, spec.depth):
        where, width = f"between layers {i} and {i + 1}", spec.layers[i - 1].units
        if spec.degree > 1 or spec.convolutional:
            name = "scale of the filter" if spec.convolutional else "scales of hidden units"
            build = partial(_scales, spec=spec, i=i)
            yield Piece("scales", name, where, "MLP", "exact", width, build, i)
        else:
            build = partial(_basis, spec=spec, i=i)
            name = f"change of basis GL({width})"
            yield Piece("between", name, where, "MLP", "exact", None, build, i)
        if spec.degree == 1 and spec.bias:
            build = partial(_shifts, spec=spec, i=i)
            name = "the bias against the bias of the next layer"
            yield Piece("shift", name, where, "shifts", "exact", None, build, i)


def _scales(w: ModularWeights, spec: Polynomial, i: int) -> Array:
    """One generator for each unit of layer i."""
    own, after = spec.layers[i - 1], spec.layers[i]
    canvas = w.canvas(own.units)
    every = range(own.units)
    name, reader = weight_name(own), weight_name(after)
    canvas(str(i), name)[every, every] = w(str(i), name)
    if spec.bias:
        canvas(str(i), "b")[every, every] = w(str(i), "b")
    read = w(str(i + 1), reader)
    if isinstance(after, Convolution):
        canvas(str(i + 1), reader)[0] = -spec.degree * read
    else:
        canvas(str(i + 1), reader)[every, :, every] = -spec.degree * read.T
    return canvas.rows


def _basis(w: ModularWeights, spec: Polynomial, i: int) -> Array:
    """A generator for each entry (p, q): unit q is added to unit p, and its readers subtract it."""
    width = spec.layers[i - 1].width_out
    canvas = w.canvas(width * width)
    before, after = w(str(i), "W"), w(str(i + 1), "W")
    for n, (p, q) in enumerate(np.ndindex(width, width)):
        canvas(str(i), "W")[n, p] = before[q]
        if spec.bias:
            canvas(str(i), "b")[n, p] = w(str(i), "b")[q]
        canvas(str(i + 1), "W")[n, :, q] = -after[:, p]
    return canvas.rows


def _shifts(w: ModularWeights, spec: Polynomial, i: int) -> Array:
    """A generator for each bias of layer i."""
    own, after = spec.layers[i - 1], spec.layers[i]
    canvas = w.canvas(own.units)
    every = range(own.units)
    canvas(str(i), "b")[every, every, 0] = 1
    read = w(str(i + 1), weight_name(after))
    if isinstance(after, Dense):
        canvas(str(i + 1), "b")[every, :, 0] = -read.T
    else:
        canvas(str(i + 1), "b")[0, 0, 0] = -read.sum()
    return canvas.rows
