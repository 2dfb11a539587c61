"""What is free where no patch and no position lies? Families 35 and 62 of section 9."""

from __future__ import annotations

from flint import nmod_mat

from segre.referee.linear import annihilator, beside, select
from segre.referee.transformers.tangents import Family, Point, Tangent
from segre.referee.transformers.weights import EMBED

_FILLED = "what tokens and positions fill"


def unreached(point: Point) -> Family:
    """Family 35."""
    spec, stream, d = point.spec, point.stream, point.spec.d
    if not spec.patch or spec.patch + spec.t >= d - (spec.norm == "layer"):
        return
    attention = stream.consumers[0]
    norm = stream.norm_before(attention)
    assert norm is not None
    read = point.gain(norm, d)[0] * _tokens(point)
    constant = point.matrices[*norm.bias, 0] if point.has(norm.bias) else None
    for reader in stream.readers(attention):
        seen = [read] if constant is None or reader.bias is not None else [read, constant]
        for numbers in annihilator(beside(seen).transpose(), _FILLED):
            form = nmod_mat(1, d, numbers, point.p)
            for number, key in enumerate(point.keys([reader.weight])):
                rows = point.matrices[key].nrows()
                for row in range(rows):
                    unit = point.field.unit(rows, 1, row, 0)
                    tangent: Tangent = {key: unit * form}
                    if constant is not None and reader.bias is not None:
                        tangent[*reader.bias, number] = unit * -(form * constant)[0, 0]
                    yield "unreached", tangent


def _tokens(point: Point) -> nmod_mat:
    """Y: columns that span all tokens before layer 1; without their means if norm is layer."""
    spec, matrices = point.spec, point.matrices
    rows, table = range(spec.d), matrices[EMBED, "positions", 0]
    constants = [matrices[EMBED, "b_P", 0]] * spec.t
    if spec.cls:
        constants[0] = matrices[EMBED, "cls", 0]
    sums = [select(table, rows, [c]) + constant for c, constant in enumerate(constants)]
    Y = beside([matrices[EMBED, "W_P", 0], *sums])
    if spec.norm == "layer":
        Y = Y - point.field.ones(spec.d, spec.d) * Y * pow(spec.d, -1, point.p)
    return Y


def outside_shift(point: Point) -> Family:
    """Family 62."""
    spec, stream, d = point.spec, point.stream, point.spec.d
    attention = stream.consumers[0]
    norm, bias = stream.norm_before(attention), stream.bias(attention)
    if not spec.patch or norm is None or bias is None:
        return
    layer, mapped = spec.norm == "layer", spec.patch
    Y = _tokens(point)
    if Y.ncols() > d - layer or Y.ncols() - spec.cls >= d - layer:
        return
    others = [c for c in range(Y.ncols()) if not (spec.cls and c == mapped)]
    held = [select(Y, range(d), others)] + [point.field.ones(d, 1)] * layer
    shifts = annihilator(beside(held).transpose(), _FILLED)
    form = _form(point, Y, [int(c >= mapped) for c in range(Y.ncols())])
    G, inverse = point.gain(norm, d)
    scale = (attention.part, "scale1", 0)
    for numbers in shifts:
        u = nmod_mat(d, 1, numbers, point.p)
        M = u * form
        if spec.cls:
            M = M - _longer(point, Y, u, mapped)
        tangent: Tangent = {(EMBED, "positions", 0): _everywhere(point, u)}
        written = -u
        if scale in point.matrices:
            inverses = point.field.inverses(point.matrices[scale])
            written = point.field.diagonal(inverses) * written
        tangent[*bias, 0] = written
        turned = G * M * inverse
        for reader in stream.readers(attention):
            for number, key in enumerate(point.keys([reader.weight])):
                tangent[key] = -(point.matrices[key] * turned)
                if point.has(norm.bias) and reader.bias is not None:
                    moved = tangent[key] * point.matrices[*norm.bias, 0]
                    tangent[*reader.bias, number] = -moved
        yield "outside-shift", tangent


def _everywhere(point: Point, u: nmod_mat) -> nmod_mat:
    """u in all columns of the positions that tokens have."""
    spec = point.spec
    result = point.zero(spec.d, spec.positions)
    for c in range(spec.t):
        for r in range(spec.d):
            result[r, c] = u[r, 0]
    return result


def _longer(point: Point, Y: nmod_mat, u: nmod_mat, number: int) -> nmod_mat:
    """y times the form that is 1 on the class token y alone, times u^T y / (y^T y + d eps)."""
    spec, p = point.spec, point.p
    y = select(Y, range(spec.d), [number])
    eps = spec.eps.numerator * pow(spec.eps.denominator, -1, p)
    length = nmod_mat(1, 1, [int((y.transpose() * y)[0, 0]) + spec.d * eps], p)
    share = int((u.transpose() * y)[0, 0]) * int(point.field.inverses(length)[0, 0])
    alone = _form(point, Y, [int(c == number) for c in range(Y.ncols())])
    result: nmod_mat = y * alone * (share % p)
    return result


def _form(point: Point, Y: nmod_mat, values: list[int]) -> nmod_mat:
    """A row f with f Y = values."""
    d, p = Y.nrows(), point.p
    minus = nmod_mat(len(values), 1, [-value for value in values], p)
    found = annihilator(beside([Y.transpose(), minus]), _FILLED)
    numbers = next(row for row in found if int(row[-1]) % p)
    share = pow(int(numbers[-1]), -1, p)
    return nmod_mat(1, d, [int(x) * share for x in numbers[:-1]], p)
