"""Which experts share maps, and which heads mix? Families 54 and 55 of section 9."""

from __future__ import annotations

from itertools import product

from flint import nmod_mat

from segre.referee.linear import beside, select
from segre.referee.transformers.narrow import Span, span_of
from segre.referee.transformers.quadratic import derivatives
from segre.referee.transformers.solved import inverse, left_inverse, solutions
from segre.referee.transformers.stream import Actor
from segre.referee.transformers.tangents import Family, Point, Tangent
from segre.referee.transformers.weights import bilinear, routed, turning


def shared_maps(point: Point, part: int) -> Family:
    """Family 54, of one layer."""
    spec, p, d = point.spec, point.p, point.spec.d
    if spec.mlp != "bilinear" or spec.expbias or not routed(spec, part) or not spec.shared:
        return
    if spec.router not in ("sigmoid", "softmax") or spec.sharedgate:
        return
    onto = span_of(point, Actor("mlp", part)).whole
    n = onto.ncols()
    coefficients = d * n * (n + 1) // 2
    if spec.experts * coefficients >= 3 * d * (spec.experts * spec.eff + spec.shared):
        return
    columns: list[list[int]] = []
    sides = ("gate", "up", "down")
    blocks = [[(part, f"W_{side}", j) for side in sides] for j in range(spec.experts)]
    blocks.append([(part, f"S_{side}", 0) for side in sides])
    for j, (gate, up, down) in enumerate(blocks):
        for column in derivatives(point, [[gate], [up]], down, onto):
            if j == spec.experts:
                columns.append(column * spec.experts)
            else:
                ahead, behind = j * coefficients, (spec.experts - 1 - j) * coefficients
                columns.append([0] * ahead + column + [0] * behind)
    for x in solutions(columns, p):
        tangent: Tangent = {}
        start = 0
        for key in (key for block in blocks for key in block):
            T = point.matrices[key]
            size = T.nrows() * T.ncols()
            tangent[key] = nmod_mat(T.nrows(), T.ncols(), x[start : start + size], p)
            start += size
        yield "quadratic-experts", tangent


def head_mixing(point: Point, part: int) -> Family:
    """Family 55, of one layer."""
    spec, p, d = point.spec.at(part), point.p, point.spec.d
    if not bilinear(spec) or spec.kv == 1 or spec.qknorm or turning(spec):
        return
    if spec.gate != "none":
        return
    span = span_of(point, Actor("attention", part))
    biased = point.has((part, "b_Q"))
    columns = span.A if biased else span.whole
    k = columns.ncols()
    n = k + biased
    if n > min(spec.head, spec.dv):
        return
    onto, back = columns, left_inverse(columns)
    if biased:
        shift = point.zero(d, 1) if span.a is None else span.a
        onto = with_constant(point, span)
        back = _block(back, -(back * shift), p)
    G = spec.heads // spec.kv

    def values(letter: str, number: int) -> nmod_mat:
        keys = point.with_bias(part, letter, number)
        found: nmod_mat = beside([point.matrices[key] for key in keys]) * onto
        return found

    for i, j in product(range(spec.heads), repeat=2):
        g, h = i // G, j // G
        if g == h:
            continue
        out, front = point.matrices[part, "W_O", j], range(n)
        moved = out * values("V", h) * left_inverse(values("V", g))
        score = values("K", g).transpose() * values("Q", i) * back
        keys = values("K", h)
        lost = inverse(select(keys, front, front)).transpose() * score
        rows = nmod_mat(spec.head, lost.ncols(), p)
        for r in front:
            for c in range(lost.ncols()):
                rows[r, c] = -lost[r, c]
        tangent: Tangent = {(part, "W_O", i): moved}
        tangent[part, "W_Q", j] = select(rows, range(spec.head), range(d))
        if biased:
            tangent[part, "b_Q", j] = select(rows, range(spec.head), [d])
        yield "head-mixing", tangent


def with_constant(point: Point, span: Span) -> nmod_mat:
    """(A, a; 0, 1), which [W, b] is multiplied by."""
    shift = point.zero(point.spec.d, 1) if span.a is None else span.a
    return _block(span.A, shift, point.p)


def _block(A: nmod_mat, a: nmod_mat, p: int) -> nmod_mat:
    """(A, a; 0, 1)."""
    rows, columns = A.nrows(), A.ncols()
    result = nmod_mat(rows + 1, columns + 1, p)
    for i in range(rows):
        for j in range(columns):
            result[i, j] = A[i, j]
        result[i, columns] = a[i, 0]
    result[rows, columns] = 1
    return result
