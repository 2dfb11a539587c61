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
from segre.symmetry.piece import ModularWeights, Piece
from segre.symmetry.polynomial import polynomial_pieces
from segre.symmetry.stack import stack_pieces
from segre.symmetry.transformers import transformer_pieces
from segre.transformer.spec import Transformer


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
