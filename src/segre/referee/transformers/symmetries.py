"""How many independent directions change nothing? Section 9: all families, recounted."""

from __future__ import annotations

from itertools import accumulate

from flint import nmod_mat

from segre.referee.linear import Echelon
from segre.referee.network import Progress
from segre.referee.transformers.heads import Heads
from segre.referee.transformers.means import means
from segre.referee.transformers.norms import norms
from segre.referee.transformers.patches import outside_shift, unreached
from segre.referee.transformers.rank import added
from segre.referee.transformers.tangents import Family, Point
from segre.referee.transformers.turns import turns
from segre.referee.transformers.units import tables, units
from segre.referee.transformers.unused import unused
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


def symmetry_rank(point: Point, jacobian: nmod_mat, progress: Progress) -> list[int]:
    """The ranks of families 1 to 30 without 28 and 29, of 1 to 30, of 1 to 35, of 1 to 62, of all.

    Earlier certificates have those before the last. Every vector must be orthogonal to all rows of
    the Jacobian: here to those of soft sequences, for families 41, 60 and 61 to those
    of sequences.
    """
    span = Echelon()
    soft = (families, unused, unreached, outside_shift)
    gains = [added(span, own(point), point.layout, jacobian, progress) for own in soft]
    if any(True for _ in words(point)):
        rows = word_jacobian(point, progress)
        gains.append(added(span, words(point), point.layout, rows, progress))
    return list(accumulate(gains))
