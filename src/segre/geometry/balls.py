"""The lower bound without mod p and without Ax: a minor at a real point, in balls.

At weights and inputs that are small dyadic numbers the true Jacobian of the true network, with
real exponentials, roots and rotations, is enclosed in balls. If a minor is proved regular there,
the Jacobian has at least that rank at that point, hence generically. Which minor is found in
floating point, or mod p; that it is regular is proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from flint import arb, arb_mat

from segre.architectures import Architecture
from segre.errors import UnluckyError
from segre.fields.ball import Ball
from segre.fields.interface import Array
from segre.finding import Bound, Evidence
from segre.geometry.pivots import likely_minors, minors_at
from segre.geometry.progress import Progress, quiet
from segre.geometry.rank import JacobianRank
from segre.geometry.real_point import RealPoint, richer_points
from segre.network import jacobian_rows

_BITS = (128, 256, 512, 1024)
_RICHER = 3  # points
_ENTRIES = 60_000  # of the Jacobian, in balls, to choose rows and columns from
_REPEATS = 16  # inputs drawn for each that is used, where sequences may come twice
_AT_ONCE = 64  # rows of the Jacobian
_PER_WORD = 4  # inputs for each word: derivatives by its embedding need it
_LARGEST = 2_000_000  # multiplications of an elimination


@dataclass(frozen=True)
class BallMinor:
    """Rows (input, output entry) and columns of a minor that is regular at the real point."""

    rows: list[tuple[int, int]]
    columns: list[int]
    bits: int
    seed: int

    @property
    def bound(self) -> Bound:
        """What it proves."""
        n = len(self.columns)
        if not n:
            return Bound(
                0, Evidence("trivial", "no minor of the Jacobian is known to be nonsingular")
            )
        statement = (
            f"a {n} x {n} minor of the real Jacobian is not zero at a dyadic point "
            f"(seed {self.seed}), by ball arithmetic at {self.bits} bits"
        )
        return Bound(n, Evidence("ball-minor", statement))


def ball_minor(
    spec: Architecture,
    at_most: int,
    seed: int = 0,
    progress: Progress = quiet,
    candidate: JacobianRank | None = None,
) -> BallMinor:
    """A certified minor: the candidate, or as large a one as floating point finds at a few points.

    It is empty if none is certified.

    >>> from segre.spec import Network
    >>> len(ball_minor(Network.parse("softmax/d=2,2/a=1/t=2"), 7).columns)
    7
    """
    best = BallMinor([], [], _BITS[0], seed)
    if candidate is not None:
        point = RealPoint(spec, seed)
        found = _certified(point, candidate.rows, candidate.columns, progress, _BITS[:2])
        if found is not None:
            best = found
        if len(best.columns) == at_most:
            return best
    for point, rows, columns in likely_minors(spec, at_most, seed, progress):
        if len(columns) <= len(best.columns):
            break
        found = _certified(point, rows, columns, progress)
        if found is not None:
            best = found
            break
    if spec.piecewise or spec.nearly_signs:
        return _larger(spec, at_most, seed, progress, best)
    return _grown(RealPoint(spec, best.seed), best, at_most, progress)


def _larger(
    spec: Architecture, at_most: int, seed: int, progress: Progress, best: BallMinor
) -> BallMinor:
    """A larger minor, where the best falls short: at points with larger ranks, and bordered."""
    if len(best.columns) == at_most:
        return best
    points = [RealPoint(spec, n) for n in richer_points(spec, at_most, seed, best.seed, _RICHER)]
    for point in points or [RealPoint(spec, best.seed)]:
        for rows, columns in minors_at(point, at_most, progress):
            found = _certified(point, rows, columns, progress, _BITS[:2])
            if found is not None:
                found = _grown(point, found, at_most, progress)
                best = max(best, found, key=lambda minor: len(minor.columns))
                break
        if len(best.columns) == at_most:
            break
    return best


def _grown(point: RealPoint, minor: BallMinor, at_most: int, progress: Progress) -> BallMinor:
    """The minor with all rows and columns that balls can add to it, from a few more inputs."""
    outputs = prod(point.spec.output_shape)
    inputs = -(-(at_most + at_most // 2 + 8) // outputs)
    most = _ENTRIES // (outputs * point.spec.parameters)
    inputs = max(inputs, min(_PER_WORD * point.spec.vocab, most))
    if len(minor.columns) == at_most or inputs * outputs * point.spec.parameters > _ENTRIES:
        return minor
    used = dict.fromkeys(n for n, _ in minor.rows)
    numbers = [*used, *_others(point, list(used), inputs)][: max(inputs, len(used) + inputs // 2)]
    bits = max(minor.bits, _BITS[1])
    parts, places = [], list[tuple[int, int]]()
    for n in numbers:
        try:
            parts.append(_rows(point, [(n, o) for o in range(outputs)], bits))
        except UnluckyError:  # balls do not separate a radicand, or a unit, from zero
            if n in used:
                return minor
            continue
        places += [(n, o) for o in range(outputs)]
        progress("Jacobian in ball arithmetic", len(parts), len(numbers))
    own = [places.index(place) for place in minor.rows]
    with Ball(bits).precision():
        rows, columns = bordered(np.concatenate(parts), own, minor.columns)
    if len(columns) == len(minor.columns):
        return minor
    return _certified(point, [places[r] for r in rows], columns, progress) or minor


def _others(point: RealPoint, used: list[int], count: int) -> list[int]:
    """Numbers of inputs that are not among those used; no token sequence comes twice."""
    if not point.spec.discrete:
        return [n for n in range(2 * count) if n not in used]
    numbers = [*used, *(n for n in range(_REPEATS * count) if n not in used)]
    X = point.inputs(np.array(numbers))
    first: dict[bytes, int] = {}
    for number, one in zip(numbers, X, strict=True):
        first.setdefault(one.tobytes(), number)
    return [n for n in first.values() if n not in used]


def _certified(
    point: RealPoint,
    rows: list[tuple[int, int]],
    columns: list[int],
    progress: Progress,
    precisions: Sequence[int] = _BITS,
) -> BallMinor | None:
    """The minor, if some precision proves it regular."""
    for bits in precisions:
        try:
            if Ball(bits).regular(_minor(point, rows, columns, bits, progress)):
                return BallMinor(rows, columns, bits, point.seed)
        except UnluckyError:
            continue
    return None


def _minor(
    point: RealPoint,
    rows: list[tuple[int, int]],
    columns: list[int],
    bits: int,
    progress: Progress,
) -> Array:
    """The minor in balls, some rows at a time."""
    parts = []
    for first in range(0, len(rows), _AT_ONCE):
        some = rows[first : first + _AT_ONCE]
        parts.append(_rows(point, some, bits)[:, columns])
        progress("Jacobian in ball arithmetic", first + len(some), len(rows))
    return np.concatenate(parts) if parts else np.empty((0, 0), dtype=object)


def _rows(point: RealPoint, rows: list[tuple[int, int]], bits: int) -> Array:
    """Rows of the Jacobian, in balls."""
    field = Ball(bits)
    numbers, outputs = np.array(rows).T
    with field.precision():
        X = field.constant(point.inputs(numbers))
        return jacobian_rows(field, point.spec, field.constant(point.weights), X, outputs)


# --- bordering ------------------------------------------------------------------------------------


def bordered(J: Array, rows: Sequence[int], columns: Sequence[int]) -> tuple[list[int], list[int]]:
    """Rows and columns of a regular minor of J, a matrix of balls, that contains a regular one.

    With A regular and M = [[A, B], [C, D]], a minor of the Schur complement D - C A^-1 B is regular
    if and only if the minor of M that contains A and borders it is. So it is eliminated, largest
    entry first, as long as there is an entry that is not zero: balls see entries that floats cannot
    tell from rounding.

    >>> J = np.array([[arb(1), arb(2), arb(0)], [arb(2), arb(4), arb(0)], [arb(0), arb(0), arb(7)]])
    >>> bordered(J, [0], [0])
    ([0, 2], [0, 2])
    """
    height, width = J.shape
    others = [r for r in range(height) if r not in set(rows)]
    across = [c for c in range(width) if c not in set(columns)]
    rest = J[np.ix_(others, across)]
    if len(rows) and rest.size:
        A, B = _matrix(J[np.ix_(rows, columns)]), _matrix(J[np.ix_(rows, across)])
        try:
            product = _matrix(J[np.ix_(others, columns)]) * A.solve(B)
        except ZeroDivisionError:  # at this precision
            return list(rows), list(columns)
        rest = rest - np.array(product.tolist(), dtype=object)
    more = _pivots(rest)
    found_rows = sorted([*rows, *(others[r] for r, _ in more)])
    return found_rows, sorted([*columns, *(across[c] for _, c in more)])


def _matrix(entries: Array) -> arb_mat:
    return arb_mat(entries.tolist())


def _pivots(rest: Array) -> list[tuple[int, int]]:
    """Rows and columns of the entries that a complete elimination divides by."""
    found: list[tuple[int, int]] = []
    left = np.arange(len(rest))
    while len(left) and len(found) * rest.size < _LARGEST:
        sizes = _sizes(rest)
        r, c = divmod(int(sizes.argmax()), rest.shape[1])
        if sizes[r, c] == -np.inf:
            break
        found.append((int(left[r]), c))
        pivot = rest[r]
        left, rest = np.delete(left, r), np.delete(rest, r, axis=0)
        factors = rest[:, c] / pivot[c]
        rest = rest - factors[:, None] * pivot[None, :]
        rest[:, c] = arb(0)
    return found


def _sizes(entries: Array) -> Array:
    """Logarithms of entries that are not zero; minus infinity for those that may be."""

    def size(ball: arb) -> float:
        least = ball.abs_lower()
        return float(least.log()) if least > 0 else -np.inf

    found: Array = np.asarray(np.frompyfunc(size, 1, 1)(entries), dtype=float)
    return found
