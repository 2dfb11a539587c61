"""All symmetries of a transformer, place by place."""

from __future__ import annotations

from collections.abc import Iterator

from segre.geometry.gauge.heads import head_pieces
from segre.geometry.gauge.means import mean_pieces
from segre.geometry.gauge.norms import norm_pieces
from segre.geometry.gauge.piece import Piece
from segre.geometry.gauge.scales import scale_pieces
from segre.geometry.gauge.stream import stream_pieces
from segre.geometry.gauge.units import unit_pieces
from segre.geometry.gauge.vocabulary import vocabulary_pieces
from segre.geometry.gauge.wiring import layer_parts
from segre.transformer.spec import Transformer


def pieces(spec: Transformer) -> Iterator[Piece]:
    """The pieces of all layers, of the norms, and of the stream."""
    for part in layer_parts(spec):
        yield from head_pieces(spec, part)
        yield from unit_pieces(spec, part)
    yield from vocabulary_pieces(spec)
    yield from norm_pieces(spec)
    yield from mean_pieces(spec)
    yield from scale_pieces(spec)
    yield from stream_pieces(spec)
