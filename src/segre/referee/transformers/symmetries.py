"""How many independent directions change nothing? Section 9: all families, recounted."""

from __future__ import annotations

from itertools import accumulate

from flint import nmod_mat

from segre.referee.linear import Echelon
from segre.referee.network import Progress
from segre.referee.transformers.cubic import cubic
from segre.referee.transformers.cut_off import cut_off, sign_norms
from segre.referee.transformers.few_words import few_words
from segre.referee.transformers.heads import Heads
from segre.referee.transformers.inner_gains import inner_gains, seen_inner_gains
from segre.referee.transformers.lone import lone
from segre.referee.transformers.means import means
from segre.referee.transformers.mixed import head_mixing, shared_maps
from segre.referee.transformers.narrow import narrow
from segre.referee.transformers.normed_words import normed_words
from segre.referee.transformers.norms import norms
from segre.referee.transformers.outer_turns import outer_turns, tied_forms
from segre.referee.transformers.outside_shift import outside_shift
from segre.referee.transformers.quadratic import quadratic
from segre.referee.transformers.rank import added
from segre.referee.transformers.silent import signs, silent
from segre.referee.transformers.tangents import Family, Point
from segre.referee.transformers.turns import turns
from segre.referee.transformers.units import tables, units
from segre.referee.transformers.unused import unread, unused
from segre.referee.transformers.value_shift import value_shift
from segre.referee.transformers.weights import parts
from segre.referee.transformers.words import word_jacobian, words


def families(point: Point) -> Family:
    """The tangent vectors of families 1 to 27 and 30, with their names."""
    for part in parts(point.spec):
        yield from Heads(point, part)
        yield from units(point, part)
    yield from tables(point)
    yield from norms(point)
    yield from means(point)
    yield from turns(point)


def degenerate(point: Point) -> Family:
    """Those of families 31 to 40, 42 and 45: weights without an effect of their own."""
    for part in parts(point.spec):
        yield from silent(point, part)
    yield from signs(point)
    yield from narrow(point)
    for part in parts(point.spec):
        yield from quadratic(point, part)
    yield from value_shift(point)
    yield from inner_gains(point)
    yield from unread(point)


def special(point: Point) -> Family:
    """Those of families 47, 48 and 51 to 59: of designs and sizes of their own."""
    yield from outer_turns(point)
    yield from tied_forms(point)
    yield from lone(point)
    for part in parts(point.spec):
        yield from shared_maps(point, part)
        yield from head_mixing(point, part)
        yield from cubic(point, part)
    yield from cut_off(point)
    yield from sign_norms(point)


def symmetry_rank(point: Point, jacobian: nmod_mat, progress: Progress) -> list[int]:
    """The ranks of families 1 to 30 without 28 and 29, of these, of 1 to 46, 1 to 59, 1 to 62, all.

    Earlier certificates have those before the last. Every vector must be orthogonal to all rows of
    the Jacobian: here to those of soft sequences, for families 41, 43, 44, 46, 49, 50, 60 and 61 to
    those of sequences.
    """
    span = Echelon()
    groups = (families(point), unused(point), degenerate(point))
    gains = [added(span, group, point.layout, jacobian, progress) for group in groups]
    hard = None
    if any(True for _ in words(point)) or any(True for _ in few_words(point)):
        hard = word_jacobian(point, progress)
        gains[-1] += added(span, words(point), point.layout, hard, progress)
    gains.append(added(span, special(point), point.layout, jacobian, progress))
    if hard is not None:
        gains[-1] += added(span, few_words(point), point.layout, hard, progress)
    gains.append(added(span, outside_shift(point), point.layout, jacobian, progress))
    if any(True for _ in normed_words(point)):
        hard = word_jacobian(point, progress) if hard is None else hard
        gains.append(added(span, normed_words(point), point.layout, hard, progress))
    gains.append(added(span, seen_inner_gains(point), point.layout, jacobian, progress))
    return list(accumulate(gains))
