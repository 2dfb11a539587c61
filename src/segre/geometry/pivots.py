"""Which minor of the Jacobian at a real point is large, and likely regular? Found in floats.

Nothing is proved here: geometry/balls.py proves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch
from math import ceil, log, prod

import numpy as np

from segre.architectures import Architecture
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.geometry.memory import inputs_at_once
from segre.geometry.progress import Progress
from segre.geometry.real_point import RealPoint, of_length_one, points_to_try, sequences
from segre.network import jacobian
from segre.transformer.spec import Transformer

_CUTS = (1e-11, 1e-9, 1e-7, 1e-5)  # where the rank ends: a smaller minor may be proved regular
_EPS = Fraction(1, 16)
_MOST_ROWS = 6  # for each parameter
_POINTS = 3
_LIVELY_POINTS = 48  # where units may die: regions have ranks of their own
_WORK = 1e8  # multiplications, after which no other point is tried
_LARGEST, _SURE = 2, 2  # minors to try to certify
_SPARE = 3  # in the number of inputs that have all words: one of 20 draws misses one
_DRAWS = 12  # of each token sequence: then nearly all have been drawn

Rows = list[tuple[int, int]]


@dataclass(frozen=True)
class Pivots:
    """The floating-point Jacobian at a point, its columns in the order of a pivoted QR."""

    seed: int
    rows: Array
    places: Rows  # (input, output entry) of every row
    columns: Array
    diagonal: Array
    at_most: int
    true: bool  # of the network itself, not of one with another eps

    def rank(self, cut: float = _CUTS[0]) -> int:
        """Its rank, if what is smaller than the cut is rounding."""
        return min(self.at_most, int((self.diagonal > cut * self.diagonal[0]).sum()))

    def minor(self, size: int) -> tuple[Rows, list[int]]:
        """Rows and columns of a well-conditioned minor."""
        from scipy.linalg import qr

        if not size:
            return [], []
        chosen = np.sort(self.columns[:size])
        _, rows = qr(self.rows[:, chosen].T, mode="r", pivoting=True)
        return [self.places[r] for r in np.sort(rows[:size])], chosen.tolist()


def likely_minors(
    spec: Architecture, at_most: int, seed: int, progress: Progress
) -> Iterator[tuple[RealPoint, Rows, list[int]]]:
    """Minors at the best of several points, large ones first."""
    tried: list[Pivots] = []
    work = 0.0
    for number in points_to_try(spec, seed, _LIVELY_POINTS if spec.piecewise else _POINTS):
        for chosen in _conditioned(spec):
            tried.append(_pivots(RealPoint(chosen, number), at_most, chosen is spec, progress))
            work += tried[-1].rows.size * spec.parameters
        if max(pivots.rank() for pivots in tried[-2:]) == at_most:
            break
        if work > _WORK and len(tried) >= _POINTS:
            break
    sizes = {(-pivots.rank(cut), n) for n, pivots in enumerate(tried) for cut in _CUTS}
    # the largest, and then some that are surely regular: chosen at the point itself, with a margin
    own = [n for n, pivots in enumerate(tried) if pivots.true] or range(len(tried))
    sure = {(-tried[n].rank(cut), n) for n in own for cut in _CUTS[2:]}
    for size, n in (*sorted(sizes)[:_LARGEST], *sorted(sure)[:_SURE]):
        point = RealPoint(spec, tried[n].seed)
        rows, columns = tried[n].minor(-size)
        if not _visibly_singular(point, rows, columns):
            yield point, rows, columns


def minors_at(
    point: RealPoint, at_most: int, progress: Progress
) -> Iterator[tuple[Rows, list[int]]]:
    """Minors at one point, from large ones to such as are surely regular."""
    pivots = _pivots(point, at_most, True, progress)
    for size in sorted({pivots.rank(cut) for cut in _CUTS[1:]}, reverse=True):
        yield pivots.minor(size)


@singledispatch
def _conditioned(spec: Architecture) -> list[Architecture]:
    """The architectures at whose points minors are chosen."""
    return [spec]


@_conditioned.register
def _with_larger_eps(spec: Transformer) -> list[Architecture]:
    """A tiny eps nearly has the symmetries of eps = 0: minors are better chosen with a larger one.

    But with another eps other units may die: then both are tried.
    """
    if not 0 < spec.eps < _EPS:
        return [spec]
    larger = replace(spec, eps=_EPS)
    return [larger, spec] if spec.piecewise else [larger]


def _visibly_singular(point: RealPoint, rows: Rows, columns: list[int]) -> bool:
    """Whether a row or a column is zero."""
    numbers = np.array(sorted({n for n, _ in rows}))
    if not len(numbers):
        return False
    with np.errstate(all="ignore"):
        J = jacobian(Real(), point.spec, point.weights, point.inputs(numbers))
    at = {n: i for i, n in enumerate(numbers.tolist())}
    minor = np.stack([J[at[n], o, columns] for n, o in rows])
    return not (np.isfinite(minor).all() and minor.any(axis=0).all() and minor.any(axis=1).all())


def _looked_at(spec: Architecture, most: int) -> int:
    """How many entries of an output are looked at, so that inputs enough to have all words fit in.

    Of `most` rows a large vocabulary fills too many with every input; words that no input has would
    be missing from the rank.
    """
    outputs = prod(spec.output_shape)
    if not spec.discrete:
        return outputs
    inputs = ceil(spec.vocab * (log(spec.vocab) + _SPARE) / spec.t)
    return max(1, min(outputs, most // inputs))


def _entries(number: int, count: int, outputs: int) -> list[int]:
    """Which entries of the output of an input are looked at: all, or some at random."""
    if count == outputs:
        return list(range(outputs))
    chosen = np.random.default_rng(number).choice(outputs, count, replace=False)
    found: list[int] = np.sort(chosen).tolist()
    return found


def _pivots(point: RealPoint, at_most: int, true: bool, progress: Progress) -> Pivots:
    """Enough rows of the floating-point Jacobian, and a pivoted QR of them."""
    from scipy.linalg import qr

    spec, most = point.spec, _MOST_ROWS * point.spec.parameters
    outputs = _looked_at(spec, most)
    enough = min(most, 3 * at_most + 8 * outputs)
    every = sequences(spec)
    drawn, places, J = 0, list[tuple[int, int]](), np.zeros((0, spec.parameters))
    known: set[bytes] = set()
    while True:
        more = np.arange(drawn, drawn + max(2, min(inputs_at_once(spec), enough // outputs)))
        drawn += len(more)
        X = point.inputs(more)
        by_content = {x.tobytes(): n for n, x in reversed(list(enumerate(X)))}
        new = sorted(n for content, n in by_content.items() if content not in known)
        known |= by_content.keys()
        if new:
            with np.errstate(all="ignore"):  # dead units before a norm with eps = 0 give 0 / 0
                own = jacobian(Real(), spec, point.weights, X[new])
            usable = np.isfinite(own).all(axis=(1, 2), keepdims=True)
            own = np.where(usable, own, 0)
            entries = [_entries(int(more[n]), outputs, own.shape[1]) for n in new]
            J = np.concatenate([J, *(rows[o] for rows, o in zip(own, entries, strict=True))])
            places += [(int(more[n]), o) for n, e in zip(new, entries, strict=True) for o in e]
        all_seen = len(known) == every or drawn > _DRAWS * every
        progress("floating-point Jacobian", min(len(J), enough), enough)
        if len(J) < enough and not all_seen:
            continue
        scaled = of_length_one(J)
        R, columns = qr(scaled, mode="r", pivoting=True)
        found = Pivots(point.seed, scaled, places, columns, np.abs(np.diag(R)), at_most, true)
        if found.rank() == at_most or len(J) >= most or all_seen:
            return found
        enough = min(2 * enough, most)
