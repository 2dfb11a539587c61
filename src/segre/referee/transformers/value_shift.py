"""Which constants of the embedding do value biases take back? Family 39 of section 9."""

from __future__ import annotations

from flint import nmod_mat

from segre.referee.linear import total
from segre.referee.transformers.stream import Actor
from segre.referee.transformers.tangents import Family, Point, Tangent, together
from segre.referee.transformers.units import bound_table


def value_shift(point: Point) -> Family:
    """Family 39."""
    spec, stream = point.spec, point.stream
    if spec.bias != "qkv" or spec.kvrank or spec.attn != "softmax" or spec.sinks:
        return
    if not spec.residual or spec.parallel or spec.embed or (spec.share and spec.layers > 1):
        return
    if spec.norm != "none" and spec.place != "post":
        return
    source = stream.shift_source(stream.producers[0])
    if source is None or bound_table(point, source):
        return
    passed: list[Actor] = []
    for sublayer in stream.sequence:
        if sublayer.kind != "attention":
            return
        passed.append(sublayer)
        for g in range(spec.kv if spec.gate == "none" else 0):
            for j in range(spec.dv):
                yield "value-shift", _taken_back(point, source, passed, g, j)
        if spec.norm == "layer":
            yield "value-shift", _made_up(point, source, passed, point.field.ones(spec.d, 1))
        if spec.norm != "none":
            return


def _taken_back(
    point: Point, source: tuple[int, str], passed: list[Actor], g: int, j: int
) -> Tangent:
    spec, part = point.spec, passed[-1].part
    G = spec.heads // spec.kv
    outputs = [point.matrices[part, "W_O", g * G + q] for q in range(G)]
    c = total(outputs) * point.field.unit(spec.dv, 1, j, 0)
    own: Tangent = {(part, "b_V", g): point.field.unit(spec.dv, 1, j, 0)}
    return together(own, _made_up(point, source, passed, c))


def _made_up(point: Point, source: tuple[int, str], passed: list[Actor], c: nmod_mat) -> Tangent:
    """The source loses c, and the readers make up for it."""
    spec = point.spec
    parts = [point.shifted(source, -int(c[i, 0]), row=i) for i in range(spec.d)]
    for sublayer in passed:
        for reader in point.stream.readers(sublayer):
            assert reader.bias is not None
            for i, key in enumerate(point.keys([reader.weight])):
                parts.append({(*reader.bias, i): point.matrices[key] * c})
    return together(*parts)
