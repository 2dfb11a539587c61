"""Which weights have no effect, and which heads mix? Families 31 to 34, and 42, of section 9."""

from __future__ import annotations

from itertools import permutations, product

from segre.referee.linear import total
from segre.referee.transformers.stream import Actor
from segre.referee.transformers.tangents import Family, Point, together
from segre.referee.transformers.weights import EMBED, HEAD, bilinear, routed

_SCORES = ("W_Q", "b_Q", "W_K", "b_K", "normq.gain", "A_Q", "R_Q", "R_K")


def silent(point: Point, part: int) -> Family:
    """Families 31 to 34, and 42,, of one layer."""
    spec = point.spec.at(part)
    if spec.attn == "lightning":
        yield from () if spec.gate != "none" or not bilinear(spec) else _group_mixing(point, part)
    elif not spec.sinks and spec.t == 1:
        names = _SCORES if spec.kvrank else (*_SCORES, "normk.gain")
        yield from _free(point, part, names, "silent-scores")
        if spec.gate == "none":
            yield from _pooled(point, part)
    if spec.qknorm is True and spec.head == 1 and spec.eps == 0:
        yield from _free(point, part, ("W_Q", "b_Q", "W_K", "b_K"), "signs")
    alone = spec.mixnorm and spec.heads == 1 and not (spec.mixeps or spec.eps)
    if alone and spec.attn == "lightning":
        factors = "QK" if spec.t == 1 else "Q" if spec.head == 1 else ""
        scaling = tuple(f"{x}_{y}" for y in factors for x in "Wb")
        yield from _free(point, part, scaling, "signs")
    if _one_gate(point, part):
        yield from _free(point, part, ("W_G", "b_G"), "silent-gate")
    if routed(spec, part) and spec.active == 1 and spec.router in ("sigmoid", "softmax"):
        yield from _free(point, part, ("W_R", "c_R"), "router")


def _one_gate(point: Point, part: int) -> bool:
    """Whether a gate scales all that attention writes, and the next is a norm with eps = 0."""
    spec, stream = point.spec.at(part), point.stream
    if spec.gate != "head" or spec.heads > 1 or spec.norm == "none" or spec.eps:
        return False
    if point.has((part, "b_O")):
        return False
    if spec.place in ("sandwich", "after"):
        return True
    own = Actor("attention", part)
    pairs = zip(stream.producers, stream.consumers, strict=True)
    readers = [reader for producer, reader in pairs if producer == own]
    return not spec.residual and all(stream.norm_before(reader) for reader in readers)


def signs(point: Point) -> Family:
    """Family 42, of the whole network."""
    spec, stream = point.spec, point.stream
    if spec.norm != "layer" or spec.d != 2 or spec.eps or spec.place != "post" or spec.embed:
        return
    last = stream.norm_after(stream.sequence[-1])
    assert last is not None
    kept = {last.gain, last.bias, *([(EMBED, "tokens")] if spec.tied else [])}
    for part, name in point.layout.by_place:
        if part != HEAD and (part, name) not in kept:
            yield from _free(point, part, (name,), "signs")


def _free(point: Point, part: int, names: tuple[str, ...], family: str) -> Family:
    for key in point.keys((part, name) for name in names):
        T = point.matrices[key]
        for i, j in product(range(T.nrows()), range(T.ncols())):
            tangent = point.zero(T.nrows(), T.ncols())
            tangent[i, j] = 1
            yield family, {key: tangent}


def _group_mixing(point: Point, part: int) -> Family:
    spec = point.spec.at(part)
    G = spec.heads // spec.kv
    for g, (q, k) in product(range(spec.kv), permutations(range(G), 2)):
        tangent = {(part, "W_O", g * G + q): point.matrices[part, "W_O", g * G + k]}
        lost = point.with_bias(part, "Q", g * G + k)
        for key, other in zip(lost, point.with_bias(part, "Q", g * G + q), strict=True):
            tangent[key] = -point.matrices[other]
        yield "group-mixing", tangent


def _pooled(point: Point, part: int) -> Family:
    spec = point.spec
    G, v, d = spec.heads // spec.kv, spec.dv, spec.d
    outputs = [[(part, "W_O", g * G + q) for q in range(G)] for g in range(spec.kv)]
    for (g, j), (h, k) in product(product(range(spec.kv), range(v)), repeat=2):
        move = point.unit(v, (j, k, 1))
        tangent = {}
        gained = point.with_bias(part, "V", g)
        for key, other in zip(gained, point.with_bias(part, "V", h), strict=True):
            tangent[key] = move * point.matrices[other]
        lost = total([point.matrices[key] for key in outputs[g]]) * move
        yield "pooled-heads", together(tangent, {outputs[h][0]: -lost})
    for first, *others in outputs:
        for key, i, j in product(others, range(d), range(v)):
            one = point.zero(d, v)
            one[i, j] = 1
            yield "pooled-heads", {key: one, first: -one}
