"""Symmetries of lightning heads of full rank: scores and outputs move from one head to another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.head_mixing import inverse
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.quadratic import values_on
from segre.geometry.gauge.unreached import Span, read_dimension, read_span
from segre.geometry.gauge.wiring import End, has, norm_before, where
from segre.transformer.spec import Transformer


def full_head_pieces(spec: Transformer, part: str) -> Iterator[Piece]:
    """Heads of different keys, where any form is a head's score and any map is what it writes."""
    own = spec.at(part)
    if not own.mechanism.bilinear or own.kv == 1 or own.qknorm or own.rotary_dim:
        return
    if own.gate != "none":
        return
    if min(spec.head, spec.dv) >= _width(spec, (part, "attention")):
        yield _piece(spec, part)


def _width(spec: Transformer, end: End) -> int:
    """How many values a row [W, b] takes on what attention reads, at most."""
    biased = has(spec, end[0], "b_Q") or (norm_before(spec, end) is not None and spec.norm_bias)
    return read_dimension(spec, end) + biased


def _piece(spec: Transformer, part: str) -> Piece:
    """Of two heads i and j: W_O[i] V[i] gains W_O[j] V[j], and K[j]^T Q[j] loses K[i]^T Q[i]."""
    heads = list(product(range(spec.kv), range(spec.group)))
    pairs = [(i, j) for i in heads for j in heads if i[0] != j[0]]
    biased = has(spec, part, "b_Q")

    def whole(w: ModularWeights, letter: str) -> Array:
        found = w(part, f"W_{letter}")
        if not biased:
            return found
        return np.concatenate([found, w(part, f"b_{letter}")], axis=-1)

    def build(w: ModularWeights) -> Array:
        F, span = w.field, read_span(w, (part, "attention"))
        onto = values_on(span, biased)
        n = onto.shape[1]
        if n > min(spec.head, spec.dv):
            return np.zeros((0, spec.parameters))
        Q, K, V = (F.matmul(whole(w, letter), onto) for letter in "QKV")
        back, canvas = _back(w, span, biased), w.canvas(len(pairs))
        for row, ((g, q), (h, r)) in enumerate(pairs):
            written = F.matmul(w(part, "W_O")[h, r], V[h, 0])
            canvas(part, "W_O")[row, g, q, :, :n] = F.matmul(written, inverse(F, V[g, 0, :n]))
            score = F.matmul(K[g, 0].T, Q[g, q])
            moved = F.matmul(inverse(F, K[h, 0, :n]).T, F.matmul(score, back))
            canvas(part, "W_Q")[row, h, r, :n] = -moved[:, : spec.d]
            if biased:
                canvas(part, "b_Q")[row, h, r, :n] = -moved[:, spec.d :]
        return F.reduce(canvas.rows)

    name = "mixing of lightning heads of full rank"
    return Piece("head-mixing", name, where(spec, part), "QK", "exact", len(pairs), build)


def _back(w: ModularWeights, span: Span, biased: bool) -> Array:
    """A row [W, b] with given values on the span: a left inverse of `values_on`."""
    F = w.field
    columns = span.columns if biased else span.whole
    d, k = columns.shape
    out = np.zeros((k + biased, d + biased))
    out[:k, :k] = inverse(F, columns[:k])
    if biased:
        out[k, d] = 1
        if span.constant.shape[1]:
            out[:k, d] = -F.matmul(out[:k, :d], span.constant)[:, 0]
    return out
