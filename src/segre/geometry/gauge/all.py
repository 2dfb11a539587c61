"""All symmetries of an architecture, place by place, and their generators at given weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch

from segre.architectures import Architecture
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.geometry.gauge.cubic import cubic_pieces
from segre.geometry.gauge.cut_off import cut_off_pieces, sign_norm_pieces
from segre.geometry.gauge.free_words import free_word_pieces
from segre.geometry.gauge.full_heads import full_head_pieces
from segre.geometry.gauge.heads import head_pieces
from segre.geometry.gauge.inner_gains import inner_gain_pieces
from segre.geometry.gauge.lone_basis import lone_basis_pieces
from segre.geometry.gauge.lone_token import lone_token_pieces
from segre.geometry.gauge.means import mean_pieces
from segre.geometry.gauge.mixing import mixing_pieces
from segre.geometry.gauge.narrow import narrow_pieces
from segre.geometry.gauge.normed_words import normed_word_pieces
from segre.geometry.gauge.norms import norm_pieces
from segre.geometry.gauge.outer_turns import outer_turn_pieces
from segre.geometry.gauge.outside_shift import outside_shift_pieces
from segre.geometry.gauge.parallel import parallel_pieces
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.polynomial import polynomial_pieces
from segre.geometry.gauge.quadratic import quadratic_pieces
from segre.geometry.gauge.quadratic_experts import quadratic_expert_pieces
from segre.geometry.gauge.scales import scale_pieces
from segre.geometry.gauge.silent import sign_pieces, silent_pieces
from segre.geometry.gauge.stack import stack_pieces
from segre.geometry.gauge.stream import stream_pieces
from segre.geometry.gauge.tied_forms import tied_form_pieces
from segre.geometry.gauge.units import unit_pieces
from segre.geometry.gauge.unreached import pooled_pieces, unreached_pieces
from segre.geometry.gauge.unread import unread_pieces
from segre.geometry.gauge.value_shift import value_shift_pieces
from segre.geometry.gauge.vocabulary import vocabulary_pieces
from segre.geometry.gauge.wiring import layer_parts
from segre.geometry.gauge.words import word_pieces
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.transformer.spec import Transformer


@singledispatch
def pieces(spec: Architecture) -> Iterator[Piece]:
    """The pieces of all layers; of a transformer, also those of the norms and of the stream."""
    raise TypeError(f"symmetries of a {type(spec).__name__} are not supported")


pieces.register(Network, stack_pieces)
pieces.register(Polynomial, polynomial_pieces)


@pieces.register(Transformer)
def _transformer_pieces(spec: Transformer) -> Iterator[Piece]:
    for part in layer_parts(spec):
        yield from head_pieces(spec, part)
        yield from unit_pieces(spec, part)
    yield from vocabulary_pieces(spec)
    yield from norm_pieces(spec)
    yield from mean_pieces(spec)
    yield from parallel_pieces(spec)
    yield from scale_pieces(spec)
    yield from stream_pieces(spec)
    yield from narrow_pieces(spec)
    for part in layer_parts(spec):
        yield from mixing_pieces(spec, part)
        yield from silent_pieces(spec, part)
    yield from sign_pieces(spec)
    yield from unreached_pieces(spec)
    for part in layer_parts(spec):
        yield from quadratic_pieces(spec, part)
    yield from value_shift_pieces(spec)
    yield from inner_gain_pieces(spec)
    yield from unread_pieces(spec)
    yield from word_pieces(spec)
    yield from normed_word_pieces(spec)
    yield from outside_shift_pieces(spec)
    yield from outer_turn_pieces(spec)
    yield from tied_form_pieces(spec)
    yield from free_word_pieces(spec)
    yield from pooled_pieces(spec)
    yield from cut_off_pieces(spec)
    yield from sign_norm_pieces(spec)
    yield from inner_gain_pieces(spec, seen=True)
    yield from lone_token_pieces(spec)
    yield from lone_basis_pieces(spec)
    for part in layer_parts(spec):
        yield from quadratic_expert_pieces(spec, part)
        yield from full_head_pieces(spec, part)
        yield from cubic_pieces(spec, part)


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
