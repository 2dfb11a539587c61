"""Which networks are piecewise, and at which real points is no unit of theirs dead?

With relu, a choice of experts, or a norm that gives a sign, different regions have different ranks.
A unit that is off for every token has no derivatives, and one that is on for every token is linear:
the rank of the Jacobian falls. So points are tried until every unit is on for some tokens and off
for others, and every expert is chosen by some and not by others. This only chooses where to look:
the rank at the point is proved separately.
"""

from __future__ import annotations

import numpy as np

from segre.architectures import Architecture
from segre.fields.free import Regions
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.geometry.real_point import RealPoint
from segre.network import forward

_NEXT = 0x9E3779B9  # so far apart are the seeds of the points that are tried
_INPUTS = 24  # to look at each point with
_OFTEN = 4  # as often as this is often enough
_AT_ONCE = 1 << 22  # numbers
_POINTS = 1024


class _Listening(Real):
    """Floats that count, for every unit and expert, the tokens it is on and off for."""

    def __init__(self, points: int) -> None:
        super().__init__()
        self.points = points
        self.rarest: list[Array] = []  # (points, units): the rarer of on and off

    def relu(self, x: Array) -> Array:
        """The larger of x and 0; records which units are on."""
        self._hear(x > 0)
        return super().relu(x)

    def largest(self, x: Array, count: int, groups: int = 0, within: int = 0) -> Array:
        """Ones at the largest entries; records which experts are chosen."""
        chosen = super().largest(x, count, groups, within)
        self._hear(chosen > 0)
        return chosen

    def _hear(self, on: Array) -> None:
        of_point = np.moveaxis(on.reshape(self.points, -1, *on.shape[1:]), -1, 1)
        counts = of_point.sum(axis=(1, 2)).reshape(self.points, -1)
        tokens = of_point.shape[1] * of_point.shape[2]
        self.rarest.append(np.minimum(counts, tokens - counts))


def piecewise(spec: Architecture) -> tuple[str, ...]:
    """What makes the function only piecewise analytic; empty if nothing does.

    A norm gives a sign where what it divides, at given weights, lies on a line through zero.

    >>> from segre.models import architecture
    >>> piecewise(architecture("transformer/d=2/norm=layer/mlp=relu/ff=2/t=2"))
    ('relu', 'a norm that gives a sign')
    """
    point, field = RealPoint(spec, 0), Regions()
    weights = np.repeat(point.weights[None], _INPUTS, axis=0)
    with np.errstate(all="ignore"):
        forward(field, spec, weights, point.inputs(np.arange(_INPUTS)))
    return (*spec.regions, *["a norm that gives a sign"] * field.signs)


def can_die(spec: Architecture) -> bool:
    """Whether there are units, or experts, that may be off for every token."""
    return spec.piecewise


def points_to_try(spec: Architecture, seed: int, count: int) -> list[int]:
    """Seeds of real points, those with the most active units first.

    Without units that can be dead, all points are equally good.
    """
    if not can_die(spec):
        return [seed_of(seed, n) for n in range(count)]
    batch = max(1, min(64, _AT_ONCE // (_INPUTS * spec.parameters)))
    scores: list[float] = []
    best = 1.0
    while len(scores) < min(_POINTS, 16 * batch) and sum(s == best for s in scores) < count:
        seeds = [seed_of(seed, n) for n in range(len(scores), len(scores) + batch)]
        scores += _scores(spec, seeds).tolist()
    order = sorted(range(len(scores)), key=lambda n: -scores[n])
    return [seed_of(seed, n) for n in order[:count]]


def seed_of(seed: int, n: int) -> int:
    """The seed of point n of those to try; point 0 has the seed itself."""
    return (seed + n * _NEXT) % 2**64


def _scores(spec: Architecture, seeds: list[int]) -> Array:
    """The activity of the units at each point: 1 if all are both on and off often enough.

    Inputs at which all units before a norm are off have no value, and count against a point.
    """
    points = [RealPoint(spec, seed) for seed in seeds]
    weights = np.repeat(np.stack([point.weights for point in points]), _INPUTS, axis=0)
    X = np.concatenate([point.inputs(np.arange(_INPUTS)) for point in points])
    field = _Listening(len(seeds))
    with np.errstate(all="ignore"):  # dead units before a norm with eps = 0 give 0 / 0
        out = forward(field, spec, weights, X)
    usable: Array = np.isfinite(out).reshape(len(seeds), _INPUTS, -1).all(axis=2).mean(axis=1)
    if not field.rarest:  # all layers are dense: no expert is ever chosen
        return usable
    rarest = np.concatenate(field.rarest, axis=1)
    found: Array = usable * np.minimum(rarest, _OFTEN).mean(axis=1) / _OFTEN
    return found
