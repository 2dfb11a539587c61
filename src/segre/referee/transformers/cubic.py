"""Does a lightning layer have more weights than there are maps of its kind? Family 59."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

from flint import nmod_mat

from segre.referee.linear import beside, identity, select
from segre.referee.transformers.mixed import with_constant
from segre.referee.transformers.narrow import span_of
from segre.referee.transformers.solved import solutions
from segre.referee.transformers.stream import Actor
from segre.referee.transformers.tangents import Family, Point, Tangent
from segre.referee.transformers.weights import Key, bilinear, turning


def cubic(point: Point, part: int) -> Family:
    """Family 59, of one layer."""
    spec, p, d = point.spec.at(part), point.p, point.spec.d
    turns = turning(spec) and spec.t > 1
    if not bilinear(spec) or spec.qknorm or spec.kvrank or turns or spec.gate != "none":
        return
    span, biased = span_of(point, Actor("attention", part)), point.has((part, "b_Q"))
    B = with_constant(point, span) if biased else span.whole
    n = B.ncols()
    rows = identity(d, p)
    if _mean_unseen(point, part):
        rows = select(rows, range(d - 1), range(d))
        for i in range(d - 1):
            rows[i, d - 1] = -1
    if spec.t == 1:
        triples = list(combinations_with_replacement(range(n), 3))
    else:
        pairs = combinations_with_replacement(range(n), 2)
        triples = [(i, j, k) for i, j in pairs for k in range(n)]
    heads = [(letter, h) for letter in "QO" for h in range(spec.heads)]
    groups = [(letter, g) for letter in "KV" for g in range(spec.kv)]
    blocks = {own: _keys(point, part, *own) for own in (*heads, *groups)}
    weights = {own: beside([point.matrices[key] for key in keys]) for own, keys in blocks.items()}
    unknowns = sum(W.nrows() * W.ncols() for W in weights.values())
    if rows.nrows() * len(triples) >= unknowns:
        return
    maps = {own: W if own[0] == "O" else W * B for own, W in weights.items()}
    columns: list[list[int]] = []
    for own, W in weights.items():
        for i, j in product(range(W.nrows()), range(W.ncols())):
            unit = point.field.unit(W.nrows(), W.ncols(), i, j)
            moved = unit if own[0] == "O" else unit * B
            columns.append(_coefficients(point, {**maps, own: moved}, own, rows, triples))
    for x in solutions(columns, p):
        tangent: Tangent = {}
        start = 0
        for own, W in weights.items():
            size = W.nrows() * W.ncols()
            found = nmod_mat(W.nrows(), W.ncols(), x[start : start + size], p)
            start, column = start + size, 0
            for key in blocks[own]:
                width = point.matrices[key].ncols()
                tangent[key] = select(found, range(W.nrows()), range(column, column + width))
                column += width
        yield "cubic", tangent


def _keys(point: Point, part: int, letter: str, number: int) -> list[Key]:
    return [(part, "W_O", number)] if letter == "O" else point.with_bias(part, letter, number)


def _mean_unseen(point: Point, part: int) -> bool:
    """Whether a LayerNorm takes the mean of what attention writes away."""
    stream, actor = point.stream, Actor("attention", part)
    if point.spec.norm != "layer":
        return False
    if stream.norm_after(actor) is not None:
        return True
    spots = [spot for spot in stream.joint_spots if actor in spot.producers]
    return all(stream.norm_before(c) is not None for spot in spots for c in spot.consumers)


def _coefficients(
    point: Point,
    maps: dict[tuple[str, int], nmod_mat],
    own: tuple[str, int],
    rows: nmod_mat,
    triples: list[tuple[int, int, int]],
) -> list[int]:
    """The coefficients of the heads that a map belongs to, by output and triple."""
    spec, p = point.spec, point.p
    G = spec.heads // spec.kv
    chosen = [own[1]] if own[0] in "QO" else range(own[1] * G, (own[1] + 1) * G)
    result = [[0] * len(triples) for _ in range(rows.nrows())]
    place = {triple: number for number, triple in enumerate(triples)}
    for h in chosen:
        written = (rows * maps["O", h] * maps["V", h // G]).tolist()
        score = (maps["K", h // G].transpose() * maps["Q", h]).tolist()
        n = len(score)
        for o, i, j, k in product(range(len(written)), range(n), range(n), range(n)):
            key = tuple(sorted((i, j, k))) if spec.t == 1 else (*sorted((i, j)), k)
            value = int(written[o][i]) * int(score[j][k])
            slot = place[key[0], key[1], key[2]]
            result[o][slot] = (result[o][slot] + value) % p
    return [entry for row in result for entry in row]
