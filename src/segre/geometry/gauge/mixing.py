"""Symmetries of lightning heads that share keys and values: they mix."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.wiring import has, where
from segre.transformer.spec import Transformer


def mixing_pieces(spec: Transformer, part: str) -> Iterator[Piece]:
    """The heads of a group without gates: their output is linear in W_O and in W_Q."""
    spec = spec.at(part)
    if spec.mechanism.bilinear and spec.group > 1 and spec.gate == "none":
        yield _group(spec, part)


def _group(spec: Transformer, part: str) -> Piece:
    """GL(G) of each key-value head: W_O[q] gains W_O[k] while W_Q[k] loses W_Q[q]."""
    count = spec.kv * spec.group * (spec.group - 1)

    def build(w: ModularWeights) -> Array:
        pairs = list(permutations(range(spec.group), 2))
        canvas = w.canvas(count)
        queries = [name for name in ("W_Q", "b_Q") if has(spec, part, name)]
        for row, (g, (q, k)) in enumerate((g, pair) for g in range(spec.kv) for pair in pairs):
            canvas(part, "W_O")[row, g, q] = w(part, "W_O")[g, k]
            for name in queries:
                canvas(part, name)[row, g, k] = -w(part, name)[g, q]
        return canvas.rows

    name = f"mixing GL({spec.group}) of the heads in a group"
    return Piece("group-mixing", name, where(spec, part), "QK", "exact", count, build)
