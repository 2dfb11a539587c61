"""Which turns of the stream do norms after writers, and tied tables, follow? Families 47 and 48."""

from __future__ import annotations

from itertools import combinations_with_replacement

from flint import nmod_mat

from segre.referee.linear import annihilator, identity, select
from segre.referee.transformers.solved import numbers, solutions
from segre.referee.transformers.stream import EMBEDDING, HEAD_ACTOR, Actor, Norm
from segre.referee.transformers.tangents import Family, Point, Tangent, together
from segre.referee.transformers.units import shiftable
from segre.referee.transformers.weights import EMBED, HEAD

TOKENS = (EMBED, "tokens", 0)


class _Turns:
    """The unknowns of family 47 and their equations."""

    def __init__(self, point: Point) -> None:
        spec, stream = point.spec, point.stream
        self.point, self.d = point, spec.d
        self.once = spec.place == "post"
        self.layer = spec.norm == "layer"
        last = stream.norm_after(stream.sequence[-1]) if self.once else Norm(HEAD, "norm", spec.d)
        assert last is not None
        self.last = last
        self.outer: dict[Actor, Norm] = {}
        for producer in () if self.once else (EMBEDDING, *stream.sublayers):
            norm = stream.norm_after(producer)
            if norm is not None:
                self.outer[producer] = norm
        skew = list(point.skew(self.d, self.layer))
        # An unknown: X, or S or D of one norm, or a.
        self.unknowns: list[tuple[str, Actor | None, nmod_mat]] = [("X", None, S) for S in skew]
        for producer, norm in self.outer.items():
            if point.has(norm.gain):
                self.unknowns += [("S", producer, S) for S in skew]
                self.unknowns += [("D", producer, E) for E in self._units()]
        if spec.tied:
            if point.has(self.last.gain):
                self.unknowns += [("D", None, E) for E in self._units()]
            if self.layer:
                self.unknowns += [
                    ("a", None, point.field.unit(self.d, 1, i, 0)) for i in range(self.d)
                ]

    def _units(self) -> list[nmod_mat]:
        return [self.point.unit(self.d, (i, i, 1)) for i in range(self.d)]

    def parts(self, x: list[int]) -> dict[tuple[str, Actor | None], nmod_mat]:
        """X, all S and D, and a, of a combination of unknowns."""
        found: dict[tuple[str, Actor | None], nmod_mat] = {}
        for share, (kind, actor, matrix) in zip(x, self.unknowns, strict=True):
            key, moved = (kind, actor), matrix * share
            found[key] = found[key] + moved if key in found else moved
        zero = self.point.zero(self.d, self.d)
        X = found.setdefault(("X", None), zero)
        for producer, norm in self.outer.items():
            gained = self.point.has(norm.gain)
            found.setdefault(("S", producer), zero if gained else X)
            found.setdefault(("D", producer), zero)
        found.setdefault(("D", None), zero)
        found.setdefault(("a", None), self.point.zero(self.d, 1))
        return found

    def own(self, found: dict[tuple[str, Actor | None], nmod_mat]) -> nmod_mat:
        """What turns the table."""
        return found[("S", EMBEDDING) if EMBEDDING in self.outer else ("X", None)]

    def equations(self, x: list[int]) -> list[int]:
        """By how much norms and table fail to follow."""
        point, d, found = self.point, self.d, self.parts(x)
        X, result = found["X", None], []
        C = identity(d, point.p)
        if self.layer:
            C = select(C, range(d), range(d - 1))
            for j in range(d - 1):
                C[d - 1, j] = -1
        for producer, norm in self.outer.items():
            if point.has(norm.gain):
                Gam = point.gain(norm, d)[0]
                rest = Gam * found["D", producer] + Gam * found["S", producer] - X * Gam
                result += numbers(C.transpose() * rest * C)
        if point.spec.tied and point.spec.gain:
            Gam = point.gain(self.last, d)[0]
            means = found["a", None] * point.field.ones(1, d) * Gam
            rest = Gam * found["D", None] + Gam * X - self.own(found) * Gam + means
            result += numbers(_seen(point) * rest * C)
        return result

    def tangent(self, x: list[int]) -> Tangent:
        """The vector of a solution."""
        point, found, stream = self.point, self.parts(x), self.point.stream
        X, a = found["X", None], found["a", None]
        lifted = point.field.ones(self.d, 1) * a.transpose()
        result: list[Tangent] = []
        for producer in (EMBEDDING, *stream.sublayers):
            S = found["S", producer] if producer in self.outer else X
            S = S + lifted if producer == EMBEDDING else S
            result.append(point.left(point.keys(stream.written(producer)), S))
        for producer, norm in self.outer.items():
            result.append(point.left(point.keys([norm.bias]), X))
            result.append(point.left(point.keys([norm.gain]), found["D", producer]))
        for consumer in (*stream.sublayers, HEAD_ACTOR):
            before = self.last if consumer == HEAD_ACTOR else stream.norm_before(consumer)
            Gam, inverse = point.gain(before, self.d)
            turned = Gam * X * inverse if before is not None else X + lifted
            keys = point.keys(reader.weight for reader in stream.readers(consumer))
            result.append(point.right(keys, -turned))
            if before is None:
                continue
            if consumer == HEAD_ACTOR and point.spec.tied:
                turned = self.own(found) - lifted.transpose()
            result.append(point.left(point.keys([before.bias]), turned))
        if point.spec.tied:
            result.append(point.left(point.keys([self.last.gain]), found["D", None]))
        return together(*result)


def _seen(point: Point) -> nmod_mat:
    """The forms with which a tied table reads: T of family 47."""
    d, E = point.spec.d, point.matrices[TOKENS].transpose()
    if shiftable(point):
        rows = E.nrows() - 1
        entries = [E[i + 1, j] - E[0, j] for i in range(rows) for j in range(d)]
        E = nmod_mat(rows, d, entries, point.p)
    return identity(d, point.p) if E.nrows() >= d else E


def _plain(point: Point) -> bool:
    """What both families need."""
    spec = point.spec
    if not spec.vocab or not spec.residual or spec.output == "hidden" or spec.embed:
        return False
    return not (spec.transform or spec.pooler or spec.logitcap or spec.layerscale)


def outer_turns(point: Point) -> Family:
    """Family 47."""
    spec, stream = point.spec, point.stream
    if not _plain(point) or spec.norm == "none" or spec.parallel or spec.labels:
        return
    once = spec.place == "post" and len(stream.sequence) == 1 and not spec.embnorm
    if not spec.firstnorm or not (once or (spec.place in ("pre", "sandwich") and spec.final)):
        return
    turns = _Turns(point)
    count = len(turns.unknowns)
    columns = [turns.equations([int(i == j) for j in range(count)]) for i in range(count)]
    for x in solutions(columns, point.p):
        yield "outer-turns", turns.tangent(x)


def tied_forms(point: Point) -> Family:
    """Family 48."""
    spec, stream = point.spec, point.stream
    if not _plain(point) or not spec.tied or spec.vocab - shiftable(point) >= spec.d:
        return
    gained = spec.norm == "rms" and spec.place == "pre" and spec.final and spec.gain
    if spec.norm != "none" and not (gained and not spec.embnorm and spec.firstnorm):
        return
    free = [nmod_mat(spec.d, 1, u, point.p) for u in annihilator(_seen(point), "the table")]
    for s, u in combinations_with_replacement(free, 2):
        B = s * u.transpose() + u * s.transpose()
        tangents: list[Tangent] = []
        X = B
        if spec.norm != "none":
            X, gain = _apart(point, B)
            tangents.append({(HEAD, "norm.gain", 0): gain})
        producers = (EMBEDDING, *stream.sublayers)
        tangents += [point.left(point.keys(stream.written(own)), X) for own in producers]
        for consumer in stream.sublayers:
            Gam, inverse = point.gain(stream.norm_before(consumer), spec.d)
            keys = point.keys(reader.weight for reader in stream.readers(consumer))
            tangents.append(point.right(keys, -(Gam * X * inverse)))
        yield "tied-forms", together(*tangents)


def _apart(point: Point, B: nmod_mat) -> tuple[nmod_mat, nmod_mat]:
    """X with X_ij = B_ij / (g_i - g_j), and the diagonal of B."""
    d, p = point.spec.d, point.p
    g = numbers(point.matrices[HEAD, "norm.gain", 0])
    X, gain = point.zero(d, d), point.zero(d, 1)
    for i in range(d):
        gain[i, 0] = B[i, i]
        for j in range(d):
            if i != j:
                X[i, j] = int(B[i, j]) * pow(g[i] - g[j], -1, p)
    return X, gain
