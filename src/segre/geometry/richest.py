"""Real points with the largest rank of the Jacobian, searched in floats, many at once.

With piecewise units or experts, different regions of weights have different ranks. Nothing is
proved here: geometry/balls.py does that.
"""

from __future__ import annotations

from math import prod

import numpy as np

from segre.architectures import Architecture
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.geometry.alive import seed_of
from segre.geometry.memory import inputs_at_once
from segre.geometry.real_point import RealPoint
from segre.network import jacobian

_CUTS = (1e-11, 1e-9, 1e-7)  # where the rank ends: the sum prefers what is clear
_POINTS, _FEWEST = 1024, 128
_RARE = 4096  # points, where those with the largest rank are few
_OFTEN = 24  # the largest rank, seen so often, is the largest
_INPUTS = 40  # at least: they have regions of their own
_SPARE = 8  # rows beyond the largest rank
_WORK = 7e8  # multiplications: seconds
_ROUNDING = 1e-13  # derivatives as small as this are zeros


def richer_points(spec: Architecture, at_most: int, seed: int, best: int, count: int) -> list[int]:
    """Seeds of points that may have a larger rank than the point with the seed `best`.

    Those with the largest ranks come first. Points are drawn until the largest has been seen often.
    """
    inputs = max(_INPUTS, -(-2 * at_most // prod(spec.output_shape)))
    rows = inputs * prod(spec.output_shape)
    most = (_RARE if spec.piecewise else _FEWEST) if spec.nearly_signs else _POINTS
    points = int(min(most, _WORK // (rows * spec.parameters * (at_most + _SPARE))))
    at_once = max(1, min(32, inputs_at_once(spec) // inputs))
    mixed = np.random.default_rng(0).standard_normal((at_most + _SPARE, rows)) / rows**0.5
    ranks = _ranks(spec, [best], inputs, mixed).tolist()
    largest = at_most * len(_CUTS)
    while (
        len(ranks) <= points
        and max(ranks) < largest
        and (len(ranks) <= _FEWEST or ranks.count(max(ranks)) < _OFTEN)
    ):
        numbers = range(len(ranks), min(points + 1, len(ranks) + at_once))
        ranks += _ranks(spec, [seed_of(seed, n) for n in numbers], inputs, mixed).tolist()
    own, *ranks = ranks
    order = sorted(range(len(ranks)), key=lambda n: -ranks[n])
    return [seed_of(seed, n + 1) for n in order[:count] if ranks[n] > own]


def _ranks(spec: Architecture, seeds: list[int], inputs: int, mixed: Array) -> Array:
    """The numerical rank at each point, of few combinations of all rows, summed over the cuts."""
    points = [RealPoint(spec, seed) for seed in seeds]
    weights = np.repeat(np.stack([point.weights for point in points]), inputs, axis=0)
    X = np.concatenate([point.inputs(np.arange(inputs)) for point in points])
    with np.errstate(all="ignore"):  # dead units before a norm with eps = 0 give 0 / 0
        J = jacobian(Real(), spec, weights, X)
    J = np.where(np.isfinite(J).all(axis=(1, 2), keepdims=True), J, 0)
    J = J.reshape(len(seeds), -1, spec.parameters)
    size = np.sqrt((J * J).sum(axis=2, keepdims=True))
    scaled = np.where(size > _ROUNDING, J / np.where(size > 0, size, 1), 0)
    values = np.linalg.svd(mixed @ scaled, compute_uv=False)
    clear = values[..., None] > np.array(_CUTS) * values[:, :1, None]
    found: Array = clear.sum(axis=(1, 2))
    return found
