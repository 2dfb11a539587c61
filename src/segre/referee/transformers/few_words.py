"""What are few words free to do in the first attention? Families 49 and 50 of section 9."""

from __future__ import annotations

from collections.abc import Iterator

from flint import nmod_mat

from segre.referee.linear import above, beside, select, total
from segre.referee.transformers.narrow import written_by_words
from segre.referee.transformers.solved import left_inverse
from segre.referee.transformers.stream import EMBEDDING
from segre.referee.transformers.tangents import Family, Point, Tangent, together
from segre.referee.transformers.units import shiftable
from segre.referee.transformers.weights import EMBED, HEAD, bilinear, has_norm_bias, turning
from segre.referee.transformers.words import word_columns


def few_words(point: Point) -> Family:
    """Families 49 and 50."""
    spec, stream = point.spec, point.stream
    if not spec.vocab or spec.embed or spec.embscale or spec.types or spec.kvrank:
        return
    first = stream.consumers[0]
    if stream.producers_for(first) != [EMBEDDING]:
        return
    spec = spec.at(first.part)
    plain = not spec.embnorm and stream.norm_before(first) is None
    biased = point.has((first.part, "b_K"))
    most = spec.d + (1 if plain and biased else 0) - (not plain and spec.norm == "layer")
    fit = plain or not (has_norm_bias(spec) or biased)
    free = bilinear(spec) and not spec.qknorm and spec.pos != "learned"
    if free and fit and spec.vocab <= most:
        yield from _weights(point, first.part)
    learned = (spec.t - 1) * (spec.pos == "learned")
    if plain and not biased and spec.vocab + learned <= spec.d:
        for tangent in _constants(point, first.part):
            yield "word-constants", tangent


def _weights(point: Point, part: int) -> Family:
    """Family 49."""
    spec = point.spec.at(part)
    Y = word_columns(point)
    wide = spec.vocab > spec.d
    forms = left_inverse(above([Y, point.field.ones(1, spec.vocab)]) if wide else Y)
    for g in range(spec.kv):
        for v in range(spec.vocab):
            form = select(forms, [v], range(spec.d))
            tangent: Tangent = {}
            for letter, sign in (("K", 1), ("V", -1)):
                image = point.matrices[part, f"W_{letter}", g] * select(Y, range(spec.d), [v])
                bias = point.matrices.get((part, f"b_{letter}", g))
                image = image if bias is None else image + bias
                tangent[part, f"W_{letter}", g] = image * form * sign
                if wide:
                    tangent[part, f"b_{letter}", g] = image * sign * int(forms[v, spec.d])
            yield "word-weights", tangent


def _constants(point: Point, part: int) -> Iterator[Tangent]:
    """Family 50."""
    spec, stream = point.spec.at(part), point.stream
    span = written_by_words(point)
    assert span.a is not None
    f = select(left_inverse(beside([span.a, span.A])), [0], range(spec.d))
    softmax = spec.attn == "softmax" and not spec.sinks
    if softmax and not spec.cap and not spec.qknorm:
        for g in range(spec.kv):
            for j in range(turning(spec), spec.head):
                yield {(part, "W_K", g): point.field.unit(spec.head, 1, j, 0) * f}
    back = spec.residual and spec.skip == 1 and (not spec.tied or shiftable(point))
    alone = len(stream.sequence) == 1 and spec.residual and spec.output != "hidden"
    seen = alone and spec.norm == "none" and point.has((HEAD, "b_U")) and not spec.logitcap
    seen = seen and not (spec.transform or spec.pooler)
    keys = point.keys(reader.weight for reader in stream.readers(stream.consumers[0]))
    for g, j, c in _written(point, part) if softmax and spec.gate == "none" else ():
        gained: Tangent = {(part, "W_V", g): point.field.unit(spec.dv, 1, j, 0) * f}
        if back:
            lost = {(EMBED, "tokens", 0): -c * point.field.ones(1, spec.vocab)}
            yield together(gained, lost, point.right(keys, c * f))
        if seen:
            table = point.matrices[EMBED, "tokens", 0].transpose() if spec.tied else None
            table = point.matrices[HEAD, "W_U", 0] if table is None else table
            yield together(gained, {(HEAD, "b_U", 0): -(table * c)})


def _written(point: Point, part: int) -> Iterator[tuple[int, int, nmod_mat]]:
    """c of family 39, for each (g, j)."""
    spec = point.spec.at(part)
    G = spec.heads // spec.kv
    for g in range(spec.kv):
        outputs = total([point.matrices[part, "W_O", g * G + q] for q in range(G)])
        for j in range(spec.dv):
            yield g, j, outputs * point.field.unit(spec.dv, 1, j, 0)
