"""Which weights does nothing read? Families 28 and 29 of section 9."""

from __future__ import annotations

from itertools import product

from flint import nmod_mat

from segre.referee.linear import annihilator
from segre.referee.transformers.tangents import Family, Point, Tangent
from segre.referee.transformers.weights import EMBED

W_E = (EMBED, "W_E", 0)


def unused(point: Point) -> Family:
    """Families 28 and 29."""
    yield from _positions(point)
    yield from _outside_embeddings(point)


def _positions(point: Point) -> Family:
    spec, key = point.spec, (EMBED, "positions", 0)
    if key not in point.matrices:
        return
    table = point.matrices[key]
    for row, column in product(range(table.nrows()), range(table.ncols())):
        if not spec.offset <= column < spec.offset + spec.t:
            tangent = point.zero(table.nrows(), table.ncols())
            tangent[row, column] = 1
            yield "unused-positions", {key: tangent}


def _outside_embeddings(point: Point) -> Family:
    spec, stream = point.spec, point.stream
    before = spec.norm != "none" and spec.place in ("pre", "sandwich")
    if not spec.embed or before:
        return
    first = stream.consumers[0]
    if len(stream.producers_for(first)) > 1:
        return
    filled, constant = _filled(point)
    if filled.ncols() >= filled.nrows():
        return
    forms = annihilator(filled.transpose(), "what embeddings fill of the stream")
    readers = stream.readers(first)
    if constant is not None and any(reader.bias is None for reader in readers):
        return
    for reader, numbers in product(readers, forms):
        form = nmod_mat(1, len(numbers), numbers, point.p)
        for i, key in enumerate(point.keys([reader.weight])):
            size = point.matrices[key].nrows()
            for row in range(size):
                unit = point.field.unit(size, 1, row, 0)
                tangent: Tangent = {key: unit * form}
                if constant is not None and reader.bias is not None:
                    tangent[*reader.bias, i] = unit * -(form * constant)[0, 0]
                yield "unreached", tangent


def _filled(point: Point) -> tuple[nmod_mat, nmod_mat | None]:
    """The matrix A of family 29, and the constant c, if there is one."""
    spec = point.spec
    table = point.matrices[W_E]
    bias, norm_bias = (EMBED, "b_E", 0), (EMBED, "norm.bias", 0)
    constant = point.matrices.get(bias)
    if spec.project:
        return _placed(point, table)
    if not spec.embnorm:
        return table, constant
    norm = point.stream.norm_after(point.stream.producers[0])
    scaled = table * point.gain(norm, spec.embed)[0]
    if norm_bias in point.matrices:
        written = table * point.matrices[norm_bias]
        constant = written if constant is None else constant + written
    if spec.norm != "layer":
        return scaled, constant
    rows, columns = scaled.nrows(), scaled.ncols() - 1
    entries = [scaled[i, j + 1] - scaled[i, 0] for i in range(rows) for j in range(columns)]
    return nmod_mat(rows, columns, entries, point.p), constant


def _placed(point: Point, table: nmod_mat) -> tuple[nmod_mat, nmod_mat]:
    """The same, where positions are added in the stream: the first of them is the constant."""
    spec, positions = point.spec, point.matrices[EMBED, "positions", 0]
    rows, first = table.nrows(), spec.offset
    entries = [
        entry
        for i in range(rows)
        for entry in (
            *(table[i, j] for j in range(table.ncols())),
            *(positions[i, first + c] - positions[i, first] for c in range(1, spec.t)),
        )
    ]
    columns = table.ncols() + spec.t - 1
    start = nmod_mat(rows, 1, [positions[i, first] for i in range(rows)], point.p)
    return nmod_mat(rows, columns, entries, point.p), start
