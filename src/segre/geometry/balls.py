"""The lower bound without mod p and without Ax: a minor at a real point, in balls.

At weights and inputs that are small dyadic numbers the true Jacobian of the true network, with
real exponentials, roots and rotations, is enclosed in balls. If a minor is proved regular there,
the Jacobian has at least that rank at that point, hence generically. Which minor is found in
floating point, or mod p; that it is regular is proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from segre.errors import UnluckyError
from segre.fields.ball import Ball
from segre.fields.interface import Array
from segre.finding import Bound, Evidence
from segre.geometry.pivots import likely_minors
from segre.geometry.progress import Progress, quiet
from segre.geometry.real_point import RealPoint
from segre.network import jacobian
from segre.spec import Architecture

_BITS = (128, 256, 512, 1024)


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
            return Bound(0, Evidence("trivial", "no minor of the Jacobian is known to be regular"))
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
        point = RealPoint(spec, seed)
        found = _certified(point, candidate.rows, candidate.columns, progress, _BITS[:2])
        if found is not None:
            return found
    for point, rows, columns in likely_minors(spec, at_most, seed, progress):
        found = _certified(point, rows, columns, progress)
        if found is not None:
            return found
    return BallMinor([], [], _BITS[0], seed)


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
