"""Does a bilinear MLP have more weights than there are quadratic maps? Family 38 of section 9."""

from __future__ import annotations

from flint import nmod_mat

from segre.referee.linear import beside, select
from segre.referee.meter import RESIDUES, charge
from segre.referee.transformers.narrow import span_of
from segre.referee.transformers.stream import Actor
from segre.referee.transformers.tangents import Family, Point, Tangent
from segre.referee.transformers.weights import Key

Form = list[int]


def quadratic(point: Point, part: int) -> Family:
    """Family 38, of one layer."""
    if point.spec.mlp != "bilinear" or point.spec.expbias:
        return
    onto = span_of(point, Actor("mlp", part)).whole
    for letter in "WS":
        for number, down in enumerate(point.keys([(part, f"{letter}_down")])):
            sides = [
                [
                    key
                    for name in (f"{letter}_{side}", *[f"b_{side}"] * (letter == "W"))
                    if (key := (part, name, number)) in point.matrices
                ]
                for side in ("gate", "up")
            ]
            yield from _block(point, sides, down, onto, part)


def _block(point: Point, sides: list[list[Key]], down: Key, onto: nmod_mat, part: int) -> Family:
    p, d, out = point.p, point.spec.d, point.matrices[down]
    if len(sides[0]) == 2:  # with biases
        span = span_of(point, Actor("mlp", part))
        above = span.A.tolist()
        constant = [0] * d if span.a is None else [int(x) for x in span.a.entries()]
        rows = [[*map(int, row), c] for row, c in zip(above, constant, strict=True)]
        rows.append([0] * span.A.ncols() + [1])
        onto = _matrix(rows, p)
    n, units, height = onto.ncols(), out.ncols(), onto.nrows()
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    biased = len(sides[0]) == 2
    unknowns, equations = units * (2 * height + d) + d * biased, d * len(pairs)
    if equations >= unknowns:
        return
    charge(unknowns * equations * RESIDUES.entry + RESIDUES.matmul(unknowns, unknowns, unknowns))
    columns = derivatives(point, sides, down, onto)
    # the bias of what is written: the coefficient of 1
    constants = [(o + 1) * len(pairs) - 1 for o in range(d if biased else 0)]
    columns += [[int(i == constant) for i in range(equations)] for constant in constants]
    table = _matrix(columns, p).transpose()
    kernel, nullity = table.nullspace()
    if unknowns - nullity < equations:
        return
    for k in range(nullity):
        values = [int(kernel[i, k]) for i in range(unknowns)]
        tangent: Tangent = {}
        for side, keys in enumerate(sides):
            own = nmod_mat(units, height, values[side * units * height :][: units * height], p)
            tangent |= _cut(own, keys, d)
        tangent[down] = nmod_mat(d, units, values[2 * units * height :][: d * units], p)
        if biased:
            tangent[part, "b_down", 0] = nmod_mat(d, 1, values[-d:], p)
        yield "quadratic", tangent


def derivatives(point: Point, sides: list[list[Key]], down: Key, onto: nmod_mat) -> list[list[int]]:
    """Those of all coefficients, by the entries of gate, up and down, row by row."""
    p, d, n = point.p, point.spec.d, onto.ncols()
    outputs = _numbers(point.matrices[down])
    units, basis = len(outputs[0]), _numbers(onto)
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    lines = [_numbers(beside([point.matrices[key] for key in keys]) * onto) for keys in sides]
    columns: list[list[int]] = []
    for other in (lines[1], lines[0]):
        for unit in range(units):
            for form in basis:
                q = _product(form, other[unit], pairs, p)
                columns.append([outputs[o][unit] * c % p for o in range(d) for c in q])
    for o in range(d):
        for unit in range(units):
            q = _product(lines[0][unit], lines[1][unit], pairs, p)
            before, after = [0] * (o * len(pairs)), [0] * ((d - 1 - o) * len(pairs))
            columns.append([*before, *q, *after])
    return columns


def _matrix(rows: list[Form], p: int) -> nmod_mat:
    return nmod_mat(len(rows), len(rows[0]), [x for row in rows for x in row], p)


def _numbers(matrix: nmod_mat) -> list[Form]:
    return [[int(x) for x in row] for row in matrix.tolist()]


def _product(f: Form, g: Form, pairs: list[tuple[int, int]], p: int) -> Form:
    """The coefficients of the product of two linear forms."""
    return [(f[i] * g[j] + (f[j] * g[i] if i != j else 0)) % p for i, j in pairs]


def _cut(own: nmod_mat, keys: list[Key], d: int) -> Tangent:
    """The tangent of [W, b] as those of W and b."""
    rows = range(own.nrows())
    found = {keys[0]: select(own, rows, range(d))}
    if len(keys) == 2:
        found[keys[1]] = select(own, rows, [d])
    return found
