"""Which directions are reached, and which are read, at a point? Section 7.2 of the document."""

from __future__ import annotations

from dataclasses import dataclass

from flint import nmod_mat

from segre.referee.dimensions import Dimensions
from segre.referee.linear import above, beside, identity, row_basis, total
from segre.referee.network import Point


@dataclass(frozen=True)
class Spans:
    """B_0..B_l (columns are a basis) and R_0..R_l (rows are a basis).

    B_l and R_0 are no part of any piece, but their dimensions are checked all the same.
    """

    reached: tuple[nmod_mat, ...]
    read: tuple[nmod_mat, ...]

    @classmethod
    def at(cls, point: Point, dimensions: Dimensions) -> Spans:
        """The spans at a point, which must have their generic dimensions."""
        net = point.net
        reached = [identity(net.widths[0], point.prime)]
        for number in range(1, net.depth + 1):
            values = _values(point, number)
            if dimensions.silent:
                values = [total(values)]
            images = beside([value * reached[-1] for value in values])
            what = f"the span of the tokens after layer {number}"
            basis = row_basis(images.transpose(), dimensions.reached[number], what)
            reached.append(basis.transpose())
        read = [identity(net.widths[-1], point.prime)]
        for number in range(net.depth, 0, -1):
            values = _values(point, number)
            if dimensions.silent:
                forms = [read[-1] * total(values)]
            else:
                forms = [read[-1] * value for value in values]
                heads = range(1, len(values) + 1)
                forms += [point.weights[number, name, h] for name in "KQ" for h in heads]
            what = f"the span of the forms read by layer {number}"
            read.append(row_basis(above(forms), dimensions.read[number - 1], what))
        return cls(tuple(reached), tuple(reversed(read)))


def _values(point: Point, number: int) -> list[nmod_mat]:
    attention = point.net.layers[number - 1]
    weights = point.weights
    heads = range(1, attention.heads + 1)
    if attention.dv is None:
        return [weights[number, "V", h] for h in heads]
    return [weights[number, "O", h] * weights[number, "V", h] for h in heads]
