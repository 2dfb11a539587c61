"""Symmetries of lightning stacks with many heads of small rank: some combinations of heads mix."""

from __future__ import annotations

from collections.abc import Iterator

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.stack import bilinear_heads, drawn_on, place
from segre.geometry.reach import parallel_tokens, reached
from segre.spec import Network


def mixing_pieces(spec: Network) -> Iterator[Piece]:
    """From the last layer to the first, as other pieces."""
    if not spec.mechanism.bilinear:
        return
    arrives, parallel = reached(spec), parallel_tokens(spec)
    for i in reversed(range(spec.depth)):
        head = spec.layers[i]
        free = arrives[i] - head.a
        if head.dv is None and not parallel[i] and free > 0 and head.heads - 1 > free * free:
            yield _mix_some(spec, i)


def _mix_some(spec: Network, i: int) -> Piece:
    def build(w: ModularWeights) -> Array:
        return drawn_on(w, i, bilinear_heads(w, i).of_small_rank())

    name, where = "mixing of some heads", place(spec, "mix-some-heads", i + 1, None)
    return Piece("mix-some-heads", name, where, "", "exact", None, build, i + 1, None)
