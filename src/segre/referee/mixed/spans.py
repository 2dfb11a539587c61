"""Which tokens reach a layer, and which forms are read after it? Images and forms of section H8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flint import nmod_mat

from segre.referee.linear import above, beside, echelon_form, identity, integers, top, total
from segre.referee.meter import RESIDUES, charge
from segre.referee.mixed.heads import Head
from segre.referee.mixed.weights import Layout
from segre.referee.transformers.point import product
from segre.referee.transformers.tensors import Key

Matrices = Mapping[Key, nmod_mat]


@dataclass(frozen=True)
class Unit:
    """Heads that act as one: a pool, or a single head."""

    heads: tuple[Head, ...]

    @property
    def rowwise(self) -> bool:
        """Whether rows of values are treated one by one."""
        return self.heads[0].rowwise

    @property
    def pool(self) -> bool:
        """Whether there are several heads."""
        return len(self.heads) > 1

    @property
    def rows(self) -> int:
        """How many inner rows there are."""
        first = self.heads[0]
        return first.inner if first.dv is None else first.inner * len(self.heads)


def units(heads: list[Head]) -> list[Unit]:
    """The pools, and every other head that is not dead."""
    free = [head for head in heads if not head.gates and head.mechanism.conv == "none"]
    silent = [head for head in free if head.silent and head.alone and not head.dead]
    uniform = [head for head in free if head.uniform and not head.alone]
    pools = [tuple(pool) for pool in (silent, uniform) if len(pool) > 1]
    pooled = {head for pool in pools for head in pool}
    others = [(head,) for head in heads if head not in pooled and not head.dead]
    return [Unit(members) for members in (*pools, *others)]


def parallel(layout: Layout) -> list[bool]:
    """Whether tokens lie on a line before layers 1, 2, ..."""
    spec = layout.spec
    tau = [min(spec.layers[0].width_in, spec.t)]
    for number, layer in enumerate(spec.layers, start=1):
        ranks = sum(head.rank(tau[-1]) for head in layout.heads(number))
        tau.append(min(layer.width_out, spec.t, ranks))
    return [rank == 1 for rank in tau[:-1]]


def joined(matrices: list[nmod_mat], dv: int | None) -> nmod_mat:
    """The value maps of the heads of a unit as one."""
    return total(matrices) if dv is None else above(matrices)


def outputs(unit: Unit, weights: Matrices) -> nmod_mat | None:
    """The W_O of its heads side by side, if there are any."""
    if unit.heads[0].dv is None:
        return None
    return beside([weights[head.key("W_O")] for head in unit.heads])


def inner_columns(unit: Unit, weights: Matrices, B: nmod_mat) -> nmod_mat:
    """What values can be, for tokens in the span of B."""
    first = unit.heads[0]
    if unit.rowwise:
        return identity(first.inner, B.modulus())
    each = [beside([product(weights[key], B) for key in head.values]) for head in unit.heads]
    return joined(each, first.dv)


class Spans:
    """B_i and R_i for i = 0, ..., l; None where they do not exist at these weights."""

    def __init__(self, layout: Layout, weights: Matrices, prime: int) -> None:
        self.layout, self.weights, self.prime = layout, weights, prime
        spec = layout.spec
        self.units = [units(layout.heads(i + 1)) for i in range(len(spec.layers))]
        self.images: list[nmod_mat | None] = [identity(spec.layers[0].width_in, prime)]
        for own in self.units:
            self.images.append(self._image(own, self.images[-1]))
        forms: list[nmod_mat | None] = [identity(spec.layers[-1].width_out, prime)]
        for number in range(len(spec.layers), 0, -1):
            forms.append(self._form(number, forms[-1]))
        self.forms = forms[::-1]

    def _image(self, own: list[Unit], B: nmod_mat | None) -> nmod_mat | None:
        if B is None:
            return None
        columns, most = [], 0
        for unit in own:
            inner, out = inner_columns(unit, self.weights, B), outputs(unit, self.weights)
            columns.append(inner if out is None else product(out, inner))
            reached = len(unit.heads[0].values) * B.ncols()
            most += unit.rows if unit.rowwise else min(unit.rows, reached)
        found = _basis(beside(columns).transpose(), most)
        return None if found is None else found.transpose()

    def _form(self, number: int, R: nmod_mat | None) -> nmod_mat | None:
        if R is None:
            return None
        rows, weights = [], self.weights
        for head in self.layout.heads(number):
            if not head.dead:
                rows += [weights[key] for key in head.gates]
            if not head.stuck:
                rows += [weights[key] for key in (*head.taps("W_K"), head.key("W_Q"))]
        most = sum(matrix.nrows() for matrix in rows)
        for unit in self.units[number - 1]:
            out = outputs(unit, weights)
            U = R if out is None else product(R, out)
            for maps in zip(*(head.values for head in unit.heads), strict=True):
                S = joined([weights[key] for key in maps], unit.heads[0].dv)
                rows.append(S if unit.rowwise else product(U, S))
                most += S.nrows() if unit.rowwise else min(U.nrows(), S.nrows())
        return _basis(above(rows), most)


def _basis(rows: nmod_mat, most: int) -> nmod_mat | None:
    """A basis of the row space, if it is as large as it can be."""
    reduced, rank = echelon_form(rows)
    return top(reduced, rank) if rank == min(rows.ncols(), most) else None


def kernel(matrix: nmod_mat) -> list[list[int]] | None:
    """A basis of the vectors orthogonal to all rows; None if the rank is not full."""
    rows, columns = matrix.nrows(), matrix.ncols()
    charge(RESIDUES.matmul(rows, min(rows, columns), columns) + columns**2 * RESIDUES.entry)
    basis, nullity = matrix.nullspace()
    if columns - nullity != min(rows, columns):
        return None
    return integers(basis.transpose())[:nullity]
