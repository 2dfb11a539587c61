"""What may each word do on its own? Family 41 of section 9, at token sequences."""

from __future__ import annotations

from flint import nmod_mat

from segre.referee.network import Progress
from segre.referee.transformers.content import outputs
from segre.referee.transformers.jacobian import jacobian
from segre.referee.transformers.modular import FreeRoots
from segre.referee.transformers.stages import sources
from segre.referee.transformers.tangents import Family, Point
from segre.referee.transformers.weights import EMBED


def words(point: Point) -> Family:
    """Family 41."""
    spec, key = point.spec, (EMBED, "tokens", 0)
    alone = spec.vocab and not spec.tied and spec.pos != "learned" and not spec.types
    if alone and spec.embnorm and spec.eps == 0:
        for v in range(spec.vocab):
            yield "word-scale", point.right([key], point.unit(spec.vocab, (v, v, 1)))


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
