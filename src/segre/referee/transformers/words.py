"""What may each word do on its own? Families 41, 43, 44 and 46 of section 9, at token sequences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from flint import nmod_mat

from segre.referee.linear import above, beside, select
from segre.referee.meter import RESIDUES, charge
from segre.referee.network import Progress
from segre.referee.transformers.content import outputs
from segre.referee.transformers.jacobian import jacobian
from segre.referee.transformers.modular import FreeRoots
from segre.referee.transformers.narrow import normed
from segre.referee.transformers.stages import sources
from segre.referee.transformers.stream import Norm
from segre.referee.transformers.tangents import Family, Point, Tangent, together
from segre.referee.transformers.weights import EMBED, Key, has_norm_bias


def words(point: Point) -> Family:
    """Families 41, 43, 44 and 46."""
    spec, key = point.spec, (EMBED, "tokens", 0)
    if not spec.vocab:
        return
    alone = not spec.tied and spec.pos != "learned" and not spec.types
    if alone and spec.embnorm and spec.eps == 0:
        for v in range(spec.vocab):
            yield "word-scale", point.right([key], point.unit(spec.vocab, (v, v, 1)))
    Y = _values(point)
    if Y is None:
        return
    before = spec.norm != "none" and spec.place in ("pre", "sandwich")
    if alone and before and spec.eps and not spec.residual and not spec.embnorm:
        for tangent in _word_basis(point):
            yield "word-basis", tangent
    part = point.stream.consumers[0].part
    norm = point.stream.norm_before(point.stream.consumers[0])
    if point.has((part, "b_Q")) and (spec.embnorm or norm is not None):
        return
    names = ("A_K", "A_Q") if spec.kvrank else ("W_Q", "W_K") if spec.qknorm is True else ()
    for name in names:
        for key in point.keys([(part, name)]) if spec.eps == 0 else []:
            for tangent in _directions(point, key, Y):
                yield "word-directions", tangent
        if spec.kvrank and point.has((part, name)):
            for tangent in _forms(point, part, name, Y):
                yield "word-forms", tangent


def _word_basis(point: Point) -> Iterator[Tangent]:
    """Family 46."""
    spec, d, p = point.spec, point.spec.d, point.p
    consumer = point.stream.consumers[0]
    X, ones = point.matrices[EMBED, "tokens", 0], point.field.ones(d, d)
    vectors = [point.field.unit(d, 1, i, 0) for i in range(d)]
    if spec.norm == "layer":
        X = X - ones * X * pow(d, -1, p)
        vectors = [u - vectors[-1] for u in vectors[:-1]]
    share = spec.eps.denominator * pow(d * spec.eps.numerator, -1, p)
    G, inverse = point.gain(point.stream.norm_before(consumer), d)
    keys = point.keys(reader.weight for reader in point.stream.readers(consumer))
    for u, v in product(vectors, repeat=2):
        S = u * v.transpose()
        moved = S * X
        size = X.transpose() * moved
        factors = point.unit(
            spec.vocab, *((i, i, int(size[i, i]) * share) for i in range(spec.vocab))
        )
        words = {(EMBED, "tokens", 0): moved + X * factors}
        yield together(words, point.right(keys, -(G * S * inverse)))


def _values(point: Point) -> nmod_mat | None:
    """The matrix Y of families 43 and 44; None if there are none of these."""
    spec, stream = point.spec, point.stream
    first = stream.consumers[0]
    if [actor.kind for actor in stream.producers_for(first)] != ["embedding"]:
        return None
    if spec.embed or spec.embscale or spec.types or has_norm_bias(spec):
        return None
    return word_columns(point)


def word_columns(point: Point) -> nmod_mat:
    """What the first attention reads of every word, in every position; up to scale."""
    spec, stream = point.spec, point.stream
    norm = stream.norm_before(stream.consumers[0])
    Y = point.matrices[EMBED, "tokens", 0]
    if spec.pos == "learned":
        table, rows = point.matrices[EMBED, "positions", 0], range(spec.d)
        places = [select(table, rows, [spec.offset + c]) for c in range(spec.t)]
        columns = [select(Y, rows, [v]) + p for v in range(spec.vocab) for p in places]
        Y = beside(columns)
    if spec.embnorm:
        Y = normed(point, Norm(EMBED, "norm", spec.d), Y)
    return Y if norm is None else normed(point, norm, Y)


def _directions(point: Point, key: Key, Y: nmod_mat) -> Iterator[Tangent]:
    part, name, number = key
    keys = [key]
    if (part, "b_" + name[2:], number) in point.matrices and name.startswith("W_"):
        keys.append((part, "b_" + name[2:], number))
        Y = above([Y, point.field.ones(1, Y.ncols())])
    W = beside([point.matrices[k] for k in keys])
    k, D, N = W.nrows(), Y.nrows(), Y.ncols()
    unknowns = k * D + N
    if unknowns <= k * N + 1:
        return
    charge(k * N * unknowns * RESIDUES.entry + RESIDUES.matmul(k * N, k * N, unknowns))
    Z = W * Y
    table = nmod_mat(k * N, unknowns, point.p)
    for i in range(N):
        for j in range(k):
            for c in range(D):
                table[i * k + j, j * D + c] = Y[c, i]
            table[i * k + j, k * D + i] = -Z[j, i]
    kernel, nullity = table.nullspace()
    if unknowns - nullity < k * N:
        return
    for n in range(nullity):
        found = nmod_mat(k, D, [int(kernel[c, n]) for c in range(k * D)], point.p)
        tangent = {key: select(found, range(k), range(point.spec.d))}
        for bias in keys[1:]:
            tangent[bias] = select(found, range(k), [D - 1])
        yield tangent


def _forms(point: Point, part: int, name: str, Y: nmod_mat) -> Iterator[Tangent]:
    A = point.matrices[part, name, 0]
    n, N, p = A.nrows(), Y.ncols(), point.p
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    if len(pairs) <= N:
        return
    z = A * Y
    entries = [int(z[i, c]) * int(z[j, c]) for c in range(N) for i, j in pairs]
    kernel, nullity = nmod_mat(N, len(pairs), entries, p).nullspace()
    if len(pairs) - nullity < N:
        return
    norm, readers = ("normk", ("W_K", "W_V")) if name == "A_K" else ("normq", ("W_Q", "R_Q"))
    G, inverse = point.gain(Norm(part, norm, n), n)
    for m in range(nullity):
        R = point.zero(n, n)
        for row, (i, j) in enumerate(pairs):
            value = int(kernel[row, m])
            R[i, j] = R[j, i] = value if i == j else value * ((p + 1) // 2)
        turned = point.right(point.keys((part, r) for r in readers), -(G * R * inverse))
        yield together(point.left([(part, name, 0)], R), turned)


def word_jacobian(point: Point, progress: Progress) -> nmod_mat:
    """All rows at the token sequences 0 and 1, with drawn roots and salts 0."""
    spec, layout = point.spec, point.layout
    field = FreeRoots(point.p, point.field.seed)
    salts = ((0,) * spec.t,) * sources(spec)
    rows, columns = outputs(spec)
    watched = [(n, o) for n in (0, 1) for o in range(rows * columns)]
    found: nmod_mat = jacobian(
        layout,
        field,
        layout.matrices(field, field.weights(layout.parameters)),
        watched,
        lambda n: (field.word_input(n, spec.vocab, spec.t), salts),
        progress,
    )
    return found
