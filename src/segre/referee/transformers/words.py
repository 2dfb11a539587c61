"""What may each word do on its own, before its norm? Families 41 and 60 of section 9."""

from __future__ import annotations

from flint import nmod_mat

from segre.referee.network import Progress
from segre.referee.transformers.content import outputs
from segre.referee.transformers.jacobian import jacobian
from segre.referee.transformers.modular import FreeRoots
from segre.referee.transformers.stages import sources
from segre.referee.transformers.stream import Norm
from segre.referee.transformers.tangents import Family, Point, Tangent, together
from segre.referee.transformers.weights import EMBED

_TOKENS = (EMBED, "tokens", 0)


def words(point: Point) -> Family:
    """Families 41 and 60."""
    spec = point.spec
    alone = not spec.tied and spec.pos != "learned" and not spec.types
    if not spec.vocab or not spec.embnorm or not alone:
        return
    if spec.eps == 0:
        for v in range(spec.vocab):
            yield "word-scale", point.right([_TOKENS], point.unit(spec.vocab, (v, v, 1)))
        return
    norm = Norm(EMBED, "norm", spec.d)
    fading = spec.norm == "rms" and spec.place == "post" and spec.decay == "slopes"
    if spec.embscale or not fading or not point.has(norm.gain):
        return
    for i in range(spec.d):
        own = point.unit(spec.d, (i, i, 1))
        yield "word-gains", together(_words(point, i), point.left([(*norm.gain, 0)], own))


def _words(point: Point, i: int) -> Tangent:
    """Words of which the norm divides entry i, to first order."""
    spec, p = point.spec, point.p
    X = point.matrices[_TOKENS]
    share = spec.eps.denominator * pow(spec.d * spec.eps.numerator, -1, p)
    sizes = [int(X[i, v]) ** 2 * share % p for v in range(spec.vocab)]
    factors = point.unit(spec.vocab, *((v, v, size) for v, size in enumerate(sizes)))
    return {_TOKENS: -(point.unit(spec.d, (i, i, 1)) * X + X * factors)}


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
