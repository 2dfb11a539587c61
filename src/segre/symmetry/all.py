"""All symmetries of an architecture, place by place, and their generators at given weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch

from segre.architectures import Architecture
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.symmetry.attention import head_pieces
from segre.symmetry.means import mean_pieces
from segre.symmetry.mlp import unit_pieces
from segre.symmetry.norms import norm_pieces
from segre.symmetry.patches import patch_pieces
from segre.symmetry.piece import ModularWeights, Piece
from segre.symmetry.polynomial import polynomial_pieces
from segre.symmetry.stack import stack_pieces
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


@singledispatch
def pieces(spec: Architecture) -> Iterator[Piece]:
    """The pieces of all layers; of a transformer, also those of the norms and of the stream."""
    raise TypeError(f"symmetries of a {type(spec).__name__} are not supported")


pieces.register(Network, stack_pieces)
pieces.register(Polynomial, polynomial_pieces)
pieces.register(Transformer, transformer_pieces)


@dataclass(frozen=True)
class Generators:
    """A piece at a point: one tangent vector of weights per row."""

    piece: Piece
    rows: Array


def generators(field: Prime, spec: Architecture, weights: Array) -> Iterator[Generators]:
    """The pieces that have generators at given weights mod p."""
    at = ModularWeights(field, spec, weights)
    for piece in pieces(spec):
        rows = field.reduce(piece.build(at))
        if len(rows):
            yield Generators(piece, rows)
