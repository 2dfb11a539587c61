"""At which of many real points is the rank of the Jacobian largest? In floats, many at once.

Where units are on or off, or experts chosen or not, regions of weights have ranks of their own.
Nothing is proved here: geometry/balls.py proves it.
"""

from __future__ import annotations

from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.fields.real import Real
from segre.geometry.alive import seed_of
from segre.geometry.memory import inputs_at_once
from segre.geometry.real_point import RealPoint, sequences
from segre.network import jacobian
from segre.spec import Architecture

_CUTS = (1e-11, 1e-9, 1e-7)  # where the rank ends: the sum prefers what is clear
_POINTS = 256
_OFTEN = 12  # the largest rank, seen so often, is the largest
_DRAWS = 3  # of each token sequence, where there are few
_WORK = 1.5e9  # multiplications
_ROUNDING = 1e-13  # derivatives as small as this are zeros


def richer_points(spec: Architecture, at_most: int, seed: int, best: int, count: int) -> list[int]:
    """Seeds of points that may have a larger rank than the point with the seed `best`.

    Those with the largest ranks come first. Points are drawn until the largest has been seen often.
    """
    inputs = -(-(at_most + at_most // 4 + 4) // prod(spec.output_shape))
    if _DRAWS * sequences(spec) < inputs_at_once(spec):  # few: nearly all are drawn
        inputs = int(_DRAWS * sequences(spec))
    rows = inputs * prod(spec.output_shape)
    points = int(min(_POINTS, _WORK // (rows * spec.parameters * min(rows, spec.parameters))))
    at_once = max(1, min(32, inputs_at_once(spec) // inputs))
    ranks = _ranks(spec, [best], inputs).tolist()
    while len(ranks) <= points and sum(rank >= max(ranks) for rank in ranks) < _OFTEN:
        numbers = range(len(ranks), min(points + 1, len(ranks) + at_once))
        ranks += _ranks(spec, [seed_of(seed, n) for n in numbers], inputs).tolist()
    own, *ranks = ranks
    order = sorted(range(len(ranks)), key=lambda n: -ranks[n])
    return [seed_of(seed, n + 1) for n in order[:count] if ranks[n] > own]


def _ranks(spec: Architecture, seeds: list[int], inputs: int) -> Array:
    """The numerical rank at each point, summed over the cuts."""
    points = [RealPoint(spec, seed) for seed in seeds]
    weights = np.repeat(np.stack([point.weights for point in points]), inputs, axis=0)
    X = np.concatenate([point.inputs(np.arange(inputs)) for point in points])
    with np.errstate(all="ignore"):  # dead units before a norm with eps = 0 give 0 / 0
        J = jacobian(Real(), spec, weights, X)
    J = np.where(np.isfinite(J).all(axis=(1, 2), keepdims=True), J, 0)
    J = J.reshape(len(seeds), -1, spec.parameters)
    size = np.sqrt((J * J).sum(axis=2, keepdims=True))
    scaled = np.where(size > _ROUNDING, J / np.where(size > 0, size, 1), 0)
    values = np.linalg.svd(scaled, compute_uv=False)
    clear = values[..., None] > np.array(_CUTS) * values[:, :1, None]
    found: Array = clear.sum(axis=(1, 2))
    return found
