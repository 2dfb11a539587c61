"""The symmetries of networks with monomial activations.

A hidden unit can be rescaled against what reads it: its weights and bias by c, the weights of its
readers by c^-r. All outputs of a convolution are one unit. In linear networks any change of basis
between dense layers does the same, and so does the bias of a layer against the next one.
"""

from __future__ import annotations

from collections.abc import Iterator

from segre.fields.interface import Array
from segre.polynomial.spec import Polynomial
from segre.polynomial.stages import weight_name
from segre.symmetry.basis import Basis, Scale
from segre.symmetry.piece import Given, ModularWeights, Piece
from segre.symmetry.space import Port, Tensor


def polynomial_pieces(spec: Polynomial) -> Iterator[Piece]:
    """The pieces between every two layers."""
    for i in range(1, spec.depth):
        own, after = spec.layers[i - 1], spec.layers[i]
        where, width = f"between layers {i} and {i + 1}", own.units
        written = (str(i), weight_name(own)), *([(str(i), "b")] if spec.bias else [])
        read = str(i + 1), weight_name(after)
        if spec.convolutional:
            scale = Scale(written, (read,), degree=spec.degree)
            yield Piece("scales", "scale of the filter", where, "MLP", "exact", width, scale, i)
        else:
            ports = (*map(Port, written), Port(read, -1, True, degree=spec.degree))
            linear = spec.degree == 1
            free = Basis(width, "gl" if linear else "torus", ports)
            kind, name = "scales", "scales of hidden units"
            if linear:
                kind, name = "between", f"change of basis GL({width})"
            count = None if linear else width
            yield Piece(kind, name, where, "MLP", "exact", count, free, i)
        if spec.degree == 1 and spec.bias:
            name, shift = (
                "the bias against the bias of the next layer",
                _shift(i, read, dense=not spec.convolutional),
            )
            yield Piece("shift", name, where, "shifts", "exact", None, shift, i)


def _shift(i: int, read: Tensor, *, dense: bool) -> Given:
    """What the biases of a layer (from 1) add, the biases of the next one take back."""
    parts = str(i), str(i + 1)

    def build(w: ModularWeights) -> Array:
        """A generator for each bias."""
        value, size = w(*read), len(w(parts[0], "b"))
        canvas = w.canvas(size)
        canvas(parts[0], "b")[range(size), range(size), 0] = 1
        canvas(parts[1], "b")[..., 0] = -(value.T if dense else value.sum())
        return canvas.rows

    return Given(({"free": "constants", "sources": [{"tensor": f"{p}/b"} for p in parts]},), build)
