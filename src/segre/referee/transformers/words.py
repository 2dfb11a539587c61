"""What may each word do on its own, before its norm? Families 41, 60 and 61 of section 9."""

from __future__ import annotations

from flint import nmod_mat

from segre.referee.network import Progress
from segre.referee.transformers.content import outputs
from segre.referee.transformers.jacobian import jacobian
from segre.referee.transformers.modular import FreeRoots
from segre.referee.transformers.stages import sources
from segre.referee.transformers.stream import EMBEDDING, Norm
from segre.referee.transformers.tangents import Family, Point, Tangent, together
from segre.referee.transformers.weights import EMBED, shows_stream

_TOKENS, _NORM = (EMBED, "tokens", 0), "norm"


def words(point: Point) -> Family:
    """All tangents of these families."""
    spec = point.spec
    alone = not spec.tied and spec.pos != "learned" and not spec.types
    if not spec.vocab or not spec.embnorm or not alone:
        return
    for v in range(spec.vocab) if spec.eps == 0 else ():
        yield "word-scale", point.right([_TOKENS], point.unit(spec.vocab, (v, v, 1)))
    if spec.eps == 0 or spec.embscale:
        return
    fading = spec.norm == "rms" and spec.place == "post" and spec.decay == "slopes"
    if spec.firstnorm and not fading:
        return
    if spec.norm == "layer" and not spec.final:
        return
    norm = Norm(EMBED, _NORM, spec.d)
    for i in range(spec.d) if point.has(norm.gain) else ():
        yield "word-gains", _gain(point, norm, i)
    if not spec.firstnorm and not shows_stream(spec):
        for S in point.skew(spec.d, spec.norm == "layer"):
            yield "word-turns", _turn(point, norm, S)


def _gain(point: Point, norm: Norm, i: int) -> Tangent:
    d = point.spec.d
    own = point.unit(d, (i, i, 1))
    M, parts = -own, [point.left([(*norm.gain, 0)], own)]
    if point.spec.norm == "layer":
        form = point.mean_form(norm) * own
        share = _share(point, norm)
        column = point.mean_form(norm).transpose()
        M = M + column * point.field.unit(1, d, 0, i) * share
        parts.append(_taken_back(point, point.field.ones(d, 1) * form * share))
    return together(_words(point, M), *parts)


def _turn(point: Point, norm: Norm, S: nmod_mat) -> Tangent:
    spec, stream, d = point.spec, point.stream, point.spec.d
    change = S
    if spec.norm == "layer":
        lost = point.mean_form(norm) * S * _share(point, norm)
        change = S - point.field.ones(d, 1) * lost
    G, inverse = point.gain(norm, d)
    written = [place for actor in stream.sublayers for place in stream.written(actor)]
    parts = [
        _words(point, inverse * change * G),
        _taken_back(point, change),
        point.left(point.keys(written), S),
    ]
    for consumer in dict.fromkeys(stream.consumers[1:]):
        before, after = point.gain(stream.norm_before(consumer), d)
        keys = point.keys(reader.weight for reader in stream.readers(consumer))
        parts.append(point.right(keys, -(before * S * after)))
    return together(*parts)


def _share(point: Point, norm: Norm) -> int:
    """One over the sum of the inverse gains."""
    total = point.mean_form(norm) * point.field.ones(norm.width, 1)
    return int(point.field.inverses(total)[0, 0])


def _words(point: Point, M: nmod_mat) -> Tangent:
    """Words of which the norm moves what it puts out by M."""
    spec, d, p = point.spec, point.spec.d, point.p
    X = point.matrices[_TOKENS]
    if spec.norm == "layer":
        X = X - point.field.ones(d, d) * X * pow(d, -1, p)
    share = spec.eps.denominator * pow(d * spec.eps.numerator, -1, p)
    moved = M * X
    sizes = [sum(int(X[r, v]) * int(moved[r, v]) for r in range(d)) for v in range(spec.vocab)]
    factors = point.unit(spec.vocab, *((v, v, size * share % p) for v, size in enumerate(sizes)))
    return {_TOKENS: moved + X * factors}


def _taken_back(point: Point, change: nmod_mat) -> Tangent:
    """What the first attention reads of x + change x is undone by its readers."""
    first = point.stream.consumers[0]
    assert point.stream.producers_for(first) == [EMBEDDING]
    keys = point.keys(reader.weight for reader in point.stream.readers(first))
    return point.right(keys, -change)


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
