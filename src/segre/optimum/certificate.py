"""How far from the global optimum are given weights, at most? A bound by weak duality, proved.

For every R with |adjoint(R)| <= beta (the largest singular value), and for all weights,

    <R, Y> - |R|^2 / 2   <=   the objective.

So the objective of given weights less the left side bounds what any training, with any number of
heads, could still gain. R comes from a solver in floats, but any R is as valid: the numbers of the
data, of the weights and of R are taken as the exact binary fractions that they are, both sides are
exact fractions, and |adjoint(R)| <= beta is proved by a Cholesky decomposition in balls: if all
pivots of beta^2 - adjoint(R)^T adjoint(R) are certainly positive, the matrix is positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter
from sys import float_info
from typing import Any, ClassVar

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_mat

from segre.errors import SegreError
from segre.fields.ball import Ball
from segre.fields.interface import Array
from segre.finding import Status
from segre.geometry.progress import Progress, quiet
from segre.optimum.problem import (
    Problem,
    dual_point,
    exact_square,
    heads_of,
    minimiser,
    rank_of,
)
from segre.shown import Shown

BITS = 256
ROUNDED = 2.0**-40  # the first room for rounding; each attempt has 16 times as much
ATTEMPTS = 8


@dataclass(frozen=True)
class Optimum(Shown):
    """The objective of given weights, and a proved bound from below for all weights."""

    objective: Fraction
    bound: Fraction
    heads: int
    rank: int  # of the convex problem's solution, as floats have it: an estimate
    solved: Fraction  # the objective of the solver's own heads, an upper bound of the minimum
    sizes: tuple[int, int, int, int]  # sequences, tokens, d, c
    beta: float
    status: ClassVar[Status] = "upper-bound"  # what could be gained is at most the gap

    @property
    def gap(self) -> Fraction:
        """What could still be gained, at most."""
        return self.objective - self.bound

    @property
    def relative(self) -> float:
        """The gap as a share of the objective."""
        return _above(self.gap / self.objective) if self.objective else 0.0

    @property
    def value(self) -> float:
        """The gap, rounded up."""
        return _above(self.gap)

    @property
    def how(self) -> str:
        """How it is known, in words."""
        return (
            "weak duality: objective and bound are exact fractions, and the dual point is feasible "
            f"by a Cholesky decomposition in balls of {BITS} bits"
        )

    @property
    def certain(self) -> Fraction:
        """A lower bound on the possible gain: that of the solver's heads, or 0."""
        return max(Fraction(0), self.objective - self.solved)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "objective": _above(self.objective),
            "lower bound": -_above(-self.bound),
            "gap": self.value,
            "relative gap": self.relative,
            "gain, at least": -_above(-self.certain),
            "heads": self.heads,
            "rank of the optimum (estimate)": self.rank,
            "beta": self.beta,
            **dict(zip(("sequences", "tokens", "d", "c"), self.sizes, strict=True)),
            "exact": {"objective": _exactly(self.objective), "lower bound": _exactly(self.bound)},
        }


def certify_optimum(
    problem: Problem, W_QK: Array, W_OV: Array, *, progress: Progress = quiet
) -> Optimum:
    """Weights (heads, d, d) and (heads, d, c), and how far from the optimum they are at most.

    >>> rng = np.random.default_rng(0)
    >>> problem = Problem(rng.standard_normal((3, 2, 2)), rng.standard_normal((3, 2, 1)), 1.0)
    >>> found = certify_optimum(problem, np.zeros((1, 2, 2)), np.zeros((1, 2, 1)))
    >>> found.bound < found.objective
    True
    """
    W_QK, W_OV = problem.weights(W_QK, W_OV)
    with np.errstate(all="ignore"):  # what leaves the range of floats is refused below
        try:
            Z = minimiser(problem, progress=progress)
            R = dual_point(problem, Z)
        except np.linalg.LinAlgError:
            R = np.array([np.nan])
    if not np.isfinite(R).all():
        raise SegreError("the numbers overflow floats; rescale X, Y and beta")
    return Optimum(
        problem.objective(W_QK, W_OV),
        lower_bound(problem, R),
        len(W_QK),
        rank_of(Z),
        problem.objective(*heads_of(problem, Z)),
        (*problem.X.shape[:2], problem.d, problem.c),
        problem.beta,
    )


def _above(value: Fraction) -> float:
    """The value rounded up to a float; infinity if there is none."""
    try:
        near = float(value)
    except OverflowError:
        return inf if value > 0 else -float_info.max
    return near if near >= value else nextafter(near, inf)


def _exactly(value: Fraction) -> str:
    """A fraction as text, of any length: Python's own integers refuse thousands of digits."""
    return str(fmpq(value.numerator, value.denominator))


def lower_bound(problem: Problem, R: Array) -> Fraction:
    """A proved lower bound of the objective, from any R (samples, c) of floats."""
    room, exact = ROUNDED, _exact_map(problem)
    for _ in range(ATTEMPTS):
        S = R * (1 - room)
        if _feasible(problem, exact, S):
            pairs = zip(S.reshape(-1).tolist(), problem.targets.reshape(-1).tolist(), strict=True)
            return sum((Fraction(s) * Fraction(y) for s, y in pairs), -exact_square(S) / 2)
        room *= 16
    return Fraction(0)  # R = 0: the objective is a sum of squares


def _exact_map(problem: Problem) -> fmpq_mat:
    """The transposed map from Z to predictions, (d^3, samples), in exact fractions."""
    columns = []
    for tokens in problem.X:
        X = _exact(tokens)
        square = X.transpose() * X
        columns += [[u * v for u in x for v in square.entries()] for x in X.tolist()]
    return fmpq_mat(columns).transpose()


def _feasible(problem: Problem, exact: fmpq_mat, R: Array) -> bool:
    """Whether |adjoint(R)| <= beta is proved."""
    image = (exact * _exact(R)).entries()
    wide = problem.d * problem.c
    G = fmpq_mat(problem.d**2, wide, image)
    square = G.transpose() * G if wide <= problem.d**2 else G * G.transpose()
    most = _fraction(problem.beta) ** 2
    size = square.nrows()
    with Ball(BITS).precision():
        rest = [[arb(most * (i == j) - square[i, j]) for j in range(size)] for i in range(size)]
        return _positive_definite(rest)


def _positive_definite(matrix: list[list[arb]]) -> bool:
    """Whether all pivots of a symmetric matrix of balls are certainly positive."""
    rows = arb_mat(matrix).tolist()
    size = len(rows)
    for p in range(size):
        if not rows[p][p] > 0:
            return False
        for i in range(p + 1, size):
            factor = rows[i][p] / rows[p][p]
            for j in range(p + 1, size):
                rows[i][j] -= factor * rows[p][j]
    return True


def _exact(x: Array) -> fmpq_mat:
    return fmpq_mat([[_fraction(value) for value in row] for row in x.tolist()])


def _fraction(value: float) -> fmpq:
    return fmpq(*value.as_integer_ratio())
