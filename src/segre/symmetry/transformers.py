"""The symmetries of a transformer: all its spaces, place by place."""

from __future__ import annotations

from collections.abc import Iterator

from segre.symmetry.attention import head_pieces
from segre.symmetry.means import mean_pieces
from segre.symmetry.mlp import unit_pieces
from segre.symmetry.norms import norm_pieces
from segre.symmetry.patches import patch_pieces
from segre.symmetry.piece import Piece
from segre.symmetry.stream import parallel_pieces, scale_pieces, stream_pieces
from segre.symmetry.tables import table_pieces
from segre.symmetry.unreached import unreached_pieces
from segre.symmetry.wiring import layer_parts
from segre.symmetry.words import normed_word_pieces
from segre.transformer.spec import Transformer


def transformer_pieces(spec: Transformer) -> Iterator[Piece]:
    """The pieces of all layers, of the norms, of the stream, and of words."""
    for part in layer_parts(spec):
        yield from head_pieces(spec, part)
        yield from unit_pieces(spec, part)
    yield from table_pieces(spec)
    yield from norm_pieces(spec)
    yield from mean_pieces(spec)
    yield from parallel_pieces(spec)
    yield from scale_pieces(spec)
    yield from stream_pieces(spec)
    yield from unreached_pieces(spec)
    yield from patch_pieces(spec)
    yield from normed_word_pieces(spec)
