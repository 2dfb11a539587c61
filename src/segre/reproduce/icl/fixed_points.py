"""Where does training stand still? The 2^D fixed points in exact fractions.

With key and query separate (rank one), every set S of eigenvectors gives a fixed point

    W_S = sum over d in S of  e_d e_d^T / (lam_d (1 + 1/N) + tr/N),

with one head for each d in S and all other weights zero.
With merged key and query the derivatives are v G and U . G, with G the gradient by W. They vanish
only if G = 0, the optimum, or if every v = 0, so that W = 0: two functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from segre.fields.interface import Array
from segre.reproduce.icl.loss import Quadratic, population


@dataclass(frozen=True)
class FixedPoint:
    """A set of learned directions (numbered from the largest eigenvalue, 1), exactly."""

    directions: tuple[int, ...]
    W: tuple[Fraction, ...]
    loss: Fraction
    slope: Fraction  # the largest derivative by a weight, key and query separate
    merged_slope: Fraction  # the same, at the same function, with key and query merged


def fixed_points(eigenvalues: Sequence[Fraction], context: int) -> list[FixedPoint]:
    """All 2^D, by how many directions are learned; eigenvalues from the largest on.

    >>> found = fixed_points([Fraction(3, 4), Fraction(1, 4)], 3)
    >>> [str(one.loss) for one in found], {one.slope for one in found}
    (['1', '37/64', '29/32', '31/64'], {Fraction(0, 1)})
    """
    loss = population(eigenvalues, context)
    size = len(eigenvalues)
    sets = [one for count in range(size + 1) for one in combinations(range(size), count)]
    return [_point(loss, eigenvalues, context, chosen) for chosen in sets]


def _point(
    loss: Quadratic, lam: Sequence[Fraction], context: int, chosen: tuple[int, ...]
) -> FixedPoint:
    size, total = len(lam), sum(lam)
    v = np.array([Fraction(d in chosen) for d in range(size)], dtype=object)
    k = np.array([[v[d] * (e == d) for e in range(size)] for d in range(size)], dtype=object)
    best = [1 / (value * (1 + Fraction(1, context)) + total / context) for value in lam]
    q = k * np.array(best, dtype=object)[:, None]
    W = np.matmul((v[:, None] * k).T, q).reshape(-1)
    G = loss.gradient(W).reshape(size, size)
    by_v = [k[h] @ G @ q[h] for h in range(size)]
    by_k = [v[h] * value for h in range(size) for value in G @ q[h]]
    by_q = [v[h] * value for h in range(size) for value in k[h] @ G]
    slope = max(abs(value) for value in (*by_v, *by_k, *by_q))
    by_U = [v[h] * value for h in range(size) for value in G.reshape(-1)]
    merged_slope = max(abs(value) for value in (*by_v, *by_U))
    return FixedPoint(
        tuple(d + 1 for d in chosen), tuple(W), Fraction(loss.value(W)), slope, merged_slope
    )


def steps_by_point(path: Array, points: Sequence[FixedPoint], within: float = 0.05) -> Array:
    """How many steps each run spends near each fixed point: (points, runs).

    Near: the distance of W is at most a share of the length of the optimum.
    """
    centres = np.array([[float(value) for value in point.W] for point in points])
    radius = within * np.linalg.norm(centres[-1])
    counts = [(((path - centre) ** 2).sum(axis=-1) <= radius**2).sum(axis=0) for centre in centres]
    return np.array(counts)
