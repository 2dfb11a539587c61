"""Symmetries of a single token: lightning sees a quadratic form, softmax a linear map."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.turns import below_diagonal
from segre.geometry.gauge.wiring import has, layer_parts, where
from segre.transformer.spec import Transformer


def lone_token_pieces(spec: Transformer) -> Iterator[Piece]:
    """Queries and keys of lightning heads."""
    if spec.t > 1:
        return
    if spec.mechanism.bilinear and not spec.qknorm and not spec.latent:
        for part in layer_parts(spec):
            yield _scores(spec, part)


def _scores(spec: Transformer, part: str) -> Piece:
    """A token asks itself: the score is a quadratic form, and rotations by positions cancel.

    q gains S k with S skew, and k gains S q if no other head has these keys; any basis.
    """
    k, alone = spec.head, spec.group == 1
    pairs = below_diagonal(k)
    count = spec.kv * (k * k + (spec.group + alone) * len(pairs))

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(count)
        for letter in ("W", "b"):
            if not has(spec, part, f"{letter}_Q"):
                continue
            Q, K = w(part, f"{letter}_Q"), w(part, f"{letter}_K")
            dQ, dK = canvas(part, f"{letter}_Q"), canvas(part, f"{letter}_K")
            row = 0
            for g in range(spec.kv):
                for i, j in product(range(k), repeat=2):
                    dQ[row, g, :, i], dK[row, g, 0, j] = Q[g, :, j], -K[g, 0, i]
                    row += 1
                for i, j in pairs:
                    for q in range(spec.group):
                        dQ[row, g, q, i], dQ[row, g, q, j] = K[g, 0, j], -K[g, 0, i]
                        row += 1
                    if alone:
                        dK[row, g, 0, i], dK[row, g, 0, j] = Q[g, 0, j], -Q[g, 0, i]
                        row += 1
        return np.asarray(canvas.rows)

    name = "queries and keys of a single token, which only form a quadratic form"
    return Piece("lone-scores", name, where(spec, part), "QK", "exact", 0, build)
