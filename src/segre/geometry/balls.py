"""The lower bound without mod p and without Ax: a minor at a real point, in balls.

At weights and inputs that are small dyadic numbers the true Jacobian of the true network, with
real exponentials, roots and rotations, is enclosed in balls. If a minor is proved regular there,
the Jacobian has at least that rank at that point, hence generically. Which minor is found in
floating point, or mod p; that it is regular is proved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Protocol

import numpy as np

from segre.errors import UnluckyError
from segre.fields.ball import Ball
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.finding import Bound, Evidence
from segre.geometry.alive import points_to_try
from segre.geometry.memory import inputs_at_once
from segre.geometry.progress import Progress, quiet
from segre.geometry.real_point import RealPoint
from segre.network import jacobian
from segre.spec import Architecture
from segre.transformer.spec import Transformer

_BITS = (128, 256, 512, 1024)
_CUTS = (1e-11, 1e-9, 1e-7, 1e-5)  # where the rank ends: a smaller minor may be proved regular
_POINTS = 4
_MOST_TRIALS = 5
_ROUNDING = 1e-13  # derivatives as small as this are zeros
_EPS = Fraction(1, 16)
_MOST_ROWS = 6


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
            return Bound(0, Evidence("trivial", "no minor of the Jacobian was proved regular"))
        statement = (
            f"a {n} x {n} minor of the real Jacobian is not zero at a dyadic point "
            f"(seed {self.seed}), by ball arithmetic at {self.bits} bits"
        )
        return Bound(n, Evidence("ball-minor", statement))


class Minor(Protocol):
    """Rows and columns that may well be regular."""

    @property
    def rows(self) -> list[tuple[int, int]]:
        """(input, output entry)."""
        ...

    @property
    def columns(self) -> list[int]:
        """Weights."""
        ...


def ball_minor(
    spec: Architecture,
    at_most: int,
    seed: int = 0,
    progress: Progress = quiet,
    candidate: Minor | None = None,
) -> BallMinor:
    """A certified minor: the candidate, or as large a one as floating point finds at a few points.

    It is empty if none is certified.

    >>> from segre.spec import Network
    >>> len(ball_minor(Network.parse("softmax/d=2,2/a=1/t=2"), 7).columns)
    7
    """
    if candidate is not None:
        found = _certified(RealPoint(spec, seed), candidate.rows, candidate.columns, progress)
        if found is not None:
            return found
    tried: list[_Pivots] = []
    for own in points_to_try(spec, seed, _POINTS):
        tried.append(_pivots(RealPoint(_well_conditioned(spec), own), at_most, progress))
        if tried[-1].rank(_CUTS[0]) == at_most:
            break
    tried.sort(key=lambda pivots: -pivots.rank(_CUTS[0]))
    sizes = {(p.rank(cut), n) for n, p in enumerate(tried) for cut in _CUTS}
    for size, n in sorted(sizes, key=lambda one: (-one[0], one[1]))[:_MOST_TRIALS]:
        rows, columns = tried[n].minor(size)
        found = _certified(RealPoint(spec, tried[n].seed), rows, columns, progress)
        if found is not None:
            return found
    return BallMinor([], [], _BITS[0], seed)


def _certified(
    point: RealPoint, rows: list[tuple[int, int]], columns: list[int], progress: Progress
) -> BallMinor | None:
    """The minor, if some precision proves it regular."""
    for bits in _BITS:
        try:
            if Ball(bits).regular(_minor(point, rows, columns, bits, progress)):
                return BallMinor(rows, columns, bits, point.seed)
        except UnluckyError:
            continue
    return None


def _well_conditioned(spec: Architecture) -> Architecture:
    """A tiny eps nearly has the symmetries of eps = 0: the minor is chosen with a larger one."""
    if isinstance(spec, Transformer) and 0 < spec.eps < _EPS:
        return replace(spec, eps=_EPS)
    return spec


@dataclass(frozen=True)
class _Pivots:
    """The floating-point Jacobian at a point, its columns in the order of a pivoted QR."""

    seed: int
    outputs: int
    rows: Array
    columns: Array
    diagonal: Array
    at_most: int

    def rank(self, cut: float) -> int:
        """Its rank, if what is smaller than the cut is rounding."""
        return min(self.at_most, int((self.diagonal > cut * self.diagonal[0]).sum()))

    def minor(self, size: int) -> tuple[list[tuple[int, int]], list[int]]:
        """Rows and columns of a well-conditioned minor."""
        from scipy.linalg import qr

        chosen = np.sort(self.columns[:size])
        if not size:
            return [], []
        _, rows = qr(self.rows[:, chosen].T, mode="r", pivoting=True)
        picked = np.sort(rows[:size])
        return [(int(r) // self.outputs, int(r) % self.outputs) for r in picked], chosen.tolist()


def _pivots(point: RealPoint, at_most: int, progress: Progress) -> _Pivots:
    """Enough rows of the floating-point Jacobian, and a pivoted QR of them."""
    from scipy.linalg import qr

    spec, outputs = point.spec, prod(point.spec.output_shape)
    enough = min(_MOST_ROWS * spec.parameters, 3 * at_most + 8 * outputs)
    count, J = 0, np.zeros((0, spec.parameters))
    while True:
        more = np.arange(count, count + max(2, min(inputs_at_once(spec), enough // outputs)))
        with np.errstate(all="ignore"):  # dead units before a norm with eps = 0 give 0 / 0
            own = jacobian(Real(), spec, point.weights, point.inputs(more))
        usable = np.isfinite(own).all(axis=(1, 2), keepdims=True)
        J = np.concatenate([J, np.where(usable, own, 0).reshape(-1, spec.parameters)])
        count += len(more)
        progress("floating-point Jacobian", min(len(J), enough), enough)
        if len(J) < enough:
            continue
        size = np.sqrt((J * J).sum(axis=1, keepdims=True))
        scaled = np.where(size > _ROUNDING, J / np.where(size > 0, size, 1), 0)
        R, columns = qr(scaled, mode="r", pivoting=True)
        diagonal = np.abs(np.diag(R))
        found = _Pivots(point.seed, outputs, scaled, columns, diagonal, at_most)
        if found.rank(_CUTS[0]) == at_most or len(J) >= _MOST_ROWS * spec.parameters:
            return found
        enough = min(2 * enough, _MOST_ROWS * spec.parameters)


def _minor(
    point: RealPoint,
    rows: list[tuple[int, int]],
    columns: list[int],
    bits: int,
    progress: Progress,
) -> Array:
    """The minor in balls, input by input."""
    field = Ball(bits)
    wanted: dict[int, list[int]] = {}
    for n, o in rows:
        wanted.setdefault(n, []).append(o)
    parts = []
    with field.precision():
        weights = field.constant(point.weights)
        for done, (n, outputs) in enumerate(wanted.items()):
            X = field.constant(point.inputs(np.array([n])))
            J = jacobian(field, point.spec, weights, X, np.array(outputs))
            parts.append(J[0][:, columns])
            progress("Jacobian in ball arithmetic", done + 1, len(wanted))
    return np.concatenate(parts) if parts else np.empty((0, 0), dtype=object)
