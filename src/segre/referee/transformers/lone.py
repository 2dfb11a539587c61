"""What may a single token do? Families 51 to 53 of section 9."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from flint import nmod_mat

from segre.referee.linear import above, annihilator, beside, identity, select, total
from segre.referee.transformers.narrow import Span, normed_span, unreached
from segre.referee.transformers.solved import inverse, numbers, solutions
from segre.referee.transformers.stream import EMBEDDING, Actor
from segre.referee.transformers.tangents import Family, Point, Tangent, together
from segre.referee.transformers.weights import HEAD, Key, bilinear, parts


def lone(point: Point) -> Family:
    """Families 51 to 53."""
    spec = point.spec
    if spec.t > 1:
        return
    if spec.attn == "softmax" and not spec.sinks and spec.gate == "none":
        yield from _pooled(point)
        for tangent in _bases(point):
            yield "lone-basis", tangent
    elif bilinear(spec) and not spec.qknorm and not spec.kvrank:
        for part in parts(spec):
            for tangent in _scores(point, part):
                yield "lone-scores", tangent


def pooled_span(point: Point, part: int) -> Span | None:
    """A_0 and a_0 of family 51; None if it has as many columns as without pooling."""
    spec = point.spec
    G, a = spec.heads // spec.kv, point.matrices.get((part, "b_O", 0))
    outputs = [point.matrices[key] for key in point.keys([(part, "W_O")])]
    if spec.kvrank:
        if spec.kvrank >= spec.heads * min(spec.dv, spec.kvrank):
            return None
        values = [point.matrices[key] for key in point.keys([(part, "W_V")])]
        return Span(total([out * own for out, own in zip(outputs, values, strict=True)]), a)
    if G == 1:
        return None
    return Span(beside([total(outputs[g * G : (g + 1) * G]) for g in range(spec.kv)]), a)


def _pooled(point: Point) -> Family:
    spec, stream = point.spec, point.stream
    if spec.residual:
        return
    consumers = [*stream.sublayers, *(c for c in stream.consumers[-1:] if c.kind == "head")]
    for consumer in consumers:
        producers = stream.producers_for(consumer)
        if len(producers) > 1 or producers[0].kind != "attention":
            continue
        span, norm = pooled_span(point, producers[0].part), stream.norm_before(consumer)
        if span is None:
            continue
        m = span.A.ncols() + (span.a is not None and norm is not None)
        if m >= spec.d - (norm is not None and spec.norm == "layer"):
            continue
        if norm is not None:
            span = normed_span(point, norm, span)
        for tangent in unreached(point, consumer, span):
            yield "unreached", tangent


def _scores(point: Point, part: int) -> Iterator[Tangent]:
    spec = point.spec
    k, G = spec.head, spec.heads // spec.kv
    for g in range(spec.kv):
        keys = point.with_bias(part, "K", g)
        queries = [point.with_bias(part, "Q", g * G + q) for q in range(G)]
        for i, j in product(range(k), repeat=2):
            E = point.unit(k, (i, j, 1))
            moved = point.left([key for own in queries for key in own], E)
            yield together(moved, point.left(keys, -E.transpose()))
        for S in point.skew(k):
            for own in queries:
                yield _given(point, own, keys, S)
            if G == 1:
                yield _given(point, keys, queries[0], S)


def _given(point: Point, to: list[Key], of: list[Key], S: nmod_mat) -> Tangent:
    """d to = S of."""
    return {key: S * point.matrices[other] for key, other in zip(to, of, strict=True)}


class _Linear:
    """Attention of one layer as x -> x + O V (x, 1), family 53."""

    def __init__(self, point: Point, layer: int) -> None:
        spec = point.spec
        G, self.layer, self.point = spec.heads // spec.kv, layer, point
        outputs = [point.matrices[key] for key in point.keys([(layer, "W_O")])]
        self.O = beside([total(outputs[g * G : (g + 1) * G]) for g in range(spec.kv)])
        self.V = above([point.matrices[key] for key in point.keys([(layer, "W_V")])])
        biases = [point.matrices[key] for key in point.keys([(layer, "b_V")])]
        self.b = above(biases) if biases else None
        self.last = point.matrices.get((layer, "b_O", 0))
        if self.b is not None and self.last is None:
            self.V = beside([self.V, self.b])

    def moved(self, before: nmod_mat, after: nmod_mat) -> nmod_mat:
        """Y of family 53."""
        d, point = self.point.spec.d, self.point
        one = identity(d, point.p)
        width = self.V.ncols()
        whole = self.O * self.V
        whole = whole + (one if width == d else beside([one, point.zero(d, 1)]))
        taken = select(whole, range(d), range(d)) * before
        taken = taken if width == d else beside([taken, point.zero(d, 1)])
        found: nmod_mat = after * whole - taken
        return found

    def tangent(self, before: nmod_mat, after: nmod_mat) -> Tangent:
        """dO V + O dV = Y, as vectors of W_O, W_V and the biases."""
        spec, point, part = self.point.spec, self.point, self.layer
        d, inner, p = spec.d, self.O.ncols(), point.p
        Y = self.moved(before, after)
        dO = point.zero(d, inner)
        if inner >= d:
            front = inverse(select(self.O, range(d), range(d))) * Y
            rest = nmod_mat(inner - d, Y.ncols(), p)
            dV = above([front, rest]) if inner > d else front
        else:
            top = range(inner)
            dV = inverse(select(self.O, top, top)) * select(Y, top, range(Y.ncols()))
            rest = select(Y - self.O * dV, range(d), top)
            dO = rest * inverse(select(self.V, top, top))
        result: Tangent = {}
        G = spec.heads // spec.kv
        for g in range(spec.kv):
            own = range(g * spec.dv, (g + 1) * spec.dv)
            result[part, "W_O", g * G] = select(dO, range(d), own)
            result[part, "W_V", g] = select(dV, own, range(d))
            if dV.ncols() > d:
                result[part, "b_V", g] = select(dV, own, [d])
        if self.last is not None:
            constant = self.last if self.b is None else self.last + self.O * self.b
            gained = after * constant
            result[part, "b_O", 0] = gained if self.b is None else gained - dO * self.b
        return result


def _bases(point: Point) -> Iterator[Tangent]:
    spec, stream = point.spec, point.stream
    if spec.norm != "none" or not spec.residual or spec.kvrank or spec.parallel or spec.embed:
        return
    if spec.transform or spec.pooler or spec.labels or (spec.share and spec.layers > 1):
        return
    if spec.layers == 1 and not spec.vocab:
        return
    d, depth = spec.d, spec.layers
    last = depth if spec.tied or spec.output == "hidden" else depth + 1
    free = range(0 if spec.vocab else 1, last)
    linear = {layer: _Linear(point, layer) for layer in range(1, depth + 1)}
    unknowns = [(i, E) for i in free for E in point.square(d)]
    columns = []
    for i, E in unknowns:
        X = _stretches(point, {i: E})
        column: list[int] = []
        for layer, own in linear.items():
            if own.O.ncols() < d:
                left = _rows(annihilator(own.O.transpose(), "what attention writes"), point.p)
                right = _rows(annihilator(own.V, "what values read"), point.p).transpose()
                column += numbers(left * own.moved(X[layer - 1], X[layer]) * right)
        columns.append(column)
    for x in solutions(columns, point.p):
        bases: dict[int, nmod_mat] = {}
        for share, (i, E) in zip(x, unknowns, strict=True):
            bases[i] = bases[i] + E * share if i in bases else E * share
        X = _stretches(point, bases)
        result = [own.tangent(X[layer - 1], X[layer]) for layer, own in linear.items()]
        if spec.vocab:
            result.append(point.left(point.keys(stream.written(EMBEDDING)), X[0]))
        for layer in linear if spec.mlp != "none" else ():
            mlp = Actor("mlp", layer)
            keys = point.keys(reader.weight for reader in stream.readers(mlp))
            result.append(point.left(point.keys(stream.written(mlp)), X[layer]))
            result.append(point.right(keys, -X[layer]))
        if spec.output != "hidden" and not spec.tied:
            result.append(point.right([(HEAD, "W_U", 0)], -X[depth]))
        yield together(*result)


def _rows(found: list[list[int]], p: int) -> nmod_mat:
    return nmod_mat(len(found), len(found[0]), [x for row in found for x in row], p)


def _stretches(point: Point, bases: dict[int, nmod_mat]) -> list[nmod_mat]:
    """X_0, ..., X_L: those that are given, zeros, and that of a tied table."""
    d, depth = point.spec.d, point.spec.layers
    result = [bases.get(i, point.zero(d, d)) for i in range(depth + 1)]
    if point.spec.tied and 0 in bases:
        result[depth] = -bases[0].transpose()
    return result
