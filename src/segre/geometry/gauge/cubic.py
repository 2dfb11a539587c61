"""Symmetries of lightning layers that have more weights than there are cubic maps of their kind.

A layer writes sum_k T(z_k, z_k, z) for tokens z_k and z: it is a form T with values in the stream,
symmetric in its first two arguments, and in all three if there is one token.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product

import numpy as np

from segre.fields.interface import Array
from segre.fields.rank import Echelon
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.quadratic import values_on
from segre.geometry.gauge.unreached import read_span
from segre.geometry.gauge.wiring import (
    has,
    norm_after,
    norm_before,
    stream_places,
    where,
)
from segre.transformer.spec import Transformer

Maps = dict[str, Array]  # Q and O by group and head, K and V by group; rows [W, b]


def cubic_pieces(spec: Transformer, part: str) -> Iterator[Piece]:
    """The piece of one layer; it is empty if its weights do not reach all maps."""
    own = spec.at(part)
    turns = own.rotary_dim and spec.t > 1
    if own.gate != "none":
        return
    if own.mechanism.bilinear and not spec.qknorm and not spec.latent and not turns:
        yield _piece(spec, part)


def mean_unseen(spec: Transformer, part: str) -> bool:
    """Whether a LayerNorm takes the mean of what attention writes away."""
    end = (part, "attention")
    if spec.norm != "layer":
        return False
    if norm_after(spec, end) is not None:
        return True
    consumers = [c for p in stream_places(spec) if end in p.producers for c in p.consumers]
    return all(norm_before(spec, consumer) is not None for consumer in consumers)


def _triples(spec: Transformer, n: int) -> list[tuple[int, int, int]]:
    if spec.t == 1:
        return list(combinations_with_replacement(range(n), 3))
    return [(i, j, k) for i, j in combinations_with_replacement(range(n), 2) for k in range(n)]


def _coefficients(w: ModularWeights, maps: Maps, rows: Array) -> Array:
    """All coefficients of T, by output and triple."""
    F, spec = w.field, w.transformer
    Q, K, V, O = (maps[letter] for letter in "QKVO")  # noqa: E741
    n = Q.shape[-1]
    total = np.zeros((len(rows), n, n, n))
    for g, q in product(range(spec.kv), range(spec.group)):
        written = F.matmul(rows, F.matmul(O[g, q], V[g]))
        score = F.matmul(K[g].T, Q[g, q])
        total = F.add(total, F.mul(written[:, :, None, None], score[None, None]))
    found: dict[tuple[int, ...], Array] = {}
    for i, j, k in product(range(n), repeat=3):
        key = tuple(sorted((i, j, k))) if spec.t == 1 else (*sorted((i, j)), k)
        own = total[:, i, j, k]
        found[key] = F.add(found[key], own) if key in found else own
    return np.stack([found[key] for key in _triples(spec, n)], axis=1).ravel()


def _piece(spec: Transformer, part: str) -> Piece:
    biased, d = has(spec, part, "b_Q"), spec.d

    def whole(w: ModularWeights, letter: str) -> Array:
        found = w(part, f"W_{letter}")
        return np.concatenate([found, w(part, f"b_{letter}")], axis=-1) if biased else found

    def build(w: ModularWeights) -> Array:
        F, none = w.field, np.zeros((0, spec.parameters))
        onto = values_on(read_span(w, (part, "attention")), biased)
        rows = np.eye(d)
        if mean_unseen(spec, part):
            rows = rows[:-1] - rows[-1]
        weights = {letter: whole(w, letter) for letter in "QKV"} | {"O": w(part, "W_O")}
        shapes = {letter: own.shape for letter, own in weights.items()}
        size = sum(own.size for own in weights.values())
        if len(rows) * len(_triples(spec, onto.shape[1])) >= size:
            return none
        maps = {letter: F.matmul(weights[letter], onto) for letter in "QKV"}
        maps |= {"O": weights["O"], "K": maps["K"][:, 0], "V": maps["V"][:, 0]}
        columns = []
        for letter, shape in shapes.items():
            for index in np.ndindex(*shape):
                unit = np.zeros(shape)
                unit[index] = 1
                moved = unit if letter == "O" else F.matmul(unit, onto)
                moved = moved[:, 0] if letter in "KV" else moved
                columns.append(_coefficients(w, maps | {letter: moved}, rows))
        table = np.ascontiguousarray(np.stack(columns, axis=1))
        space = Echelon(size, F)
        space.add(table)
        if space.rank < len(table):
            return none
        kernel = F.reduce(space.kernel())
        canvas, start = w.canvas(len(kernel)), 0
        for letter, shape in shapes.items():
            count = int(np.prod(shape))
            found = kernel[:, start : start + count].reshape(len(kernel), *shape)
            canvas(part, f"W_{letter}")[...] = found[..., : shape[-1] if letter == "O" else d]
            if biased and letter != "O":
                canvas(part, f"b_{letter}")[...] = found[..., d:]
            start += count
        return canvas.rows

    name = "weights of a lightning layer that has more weights than there are cubic maps"
    return Piece("cubic", name, where(spec, part), "QK", "exact", 0, build)
