"""Real points whose coordinates are dyadic numbers, the same on every machine; which are best?

Weight j is ((u(seed, WEIGHTS, j) >> 43) - 2^20) / 2^20, in [-1, 1); entries of inputs likewise, and
gains are one plus half of it. With a vocabulary an input is a token sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, prod

import numpy as np

from segre.architectures import Architecture
from segre.fields.draw import Stream, words
from segre.fields.free import Regions
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.geometry.memory import inputs_at_once
from segre.network import forward, jacobian, tensors

_GRID = 1 << 20
_TYPES = np.uint64(1 << 41)
_NEXT = 0x9E3779B9  # so far apart are the seeds of the points that are tried
_INPUTS = 24  # to look at each point with
_OFTEN = 4  # as often as this is often enough
_AT_ONCE = 1 << 22  # numbers
_POINTS, _FEWEST = 1024, 128
_RARE = 4096  # points, where those with the largest rank are few
_CUTS = (1e-11, 1e-9, 1e-7)  # where the rank ends: the sum prefers what is clear
_SEEN = 24  # the largest rank, seen so often, is the largest
_INPUTS_FOR_RANK = 40  # at least: they have regions of their own
_SPARE = 8  # rows beyond the largest rank
_WORK = 7e8  # multiplications: seconds
_ROUNDING = 1e-13  # derivatives as small as this are zeros


@dataclass(frozen=True)
class RealPoint:
    """Weights and inputs, as floats that are exactly the dyadic numbers."""

    spec: Architecture
    seed: int

    @cached_property
    def weights(self) -> Array:
        """The weights, one vector."""
        out = _dyadic(self.seed, Stream.WEIGHTS, np.arange(self.spec.parameters, dtype=np.uint64))
        for (_, name), slot in tensors(self.spec).items():
            if name.endswith(".gain"):
                out[slot.range] = 1 + out[slot.range] / 2
        return out

    def inputs(self, numbers: Array) -> Array:
        """Inputs by number: matrices, or one-hot columns of token (and type) sequences."""
        spec = self.spec
        if spec.discrete:
            return _one_hot(self.seed, spec, numbers)
        index = numbers.astype(np.uint64)[:, None, None] * np.uint64(spec.width_in * spec.t)
        within = np.arange(spec.width_in * spec.t, dtype=np.uint64)
        return _dyadic(self.seed, Stream.INPUTS, index + within.reshape(spec.width_in, spec.t))


def sequences(spec: Architecture) -> float:
    """How many different inputs there are."""
    if not spec.discrete:
        return inf
    return float(spec.vocab * max(1, spec.types)) ** min(spec.t, 64)


def _dyadic(seed: int, stream: Stream, index: Array) -> Array:
    drawn = words(seed, stream, index) >> np.uint64(43)
    return (drawn.astype(np.float64) - _GRID) / _GRID


def _one_hot(seed: int, spec: Architecture, numbers: Array) -> Array:
    """Token c of input n is u(seed, INPUTS, n t + c) mod the vocabulary; types 2^41 further on."""
    within = np.arange(spec.t, dtype=np.uint64)
    index = numbers.astype(np.uint64)[:, None] * np.uint64(spec.t) + within
    token = words(seed, Stream.INPUTS, index) % np.uint64(spec.vocab)
    rows = [np.arange(spec.vocab)[:, None] == token.astype(np.int64)[:, None, :]]
    if spec.types:
        kind = words(seed, Stream.INPUTS, index + _TYPES) % np.uint64(spec.types)
        rows.append(np.arange(spec.types)[:, None] == kind.astype(np.int64)[:, None, :])
    return np.concatenate(rows, axis=1).astype(np.float64)


# --- which points are worth a look ----------------------------------------------------------------
# With relu, a choice of experts, or a norm that gives a sign, different regions have different
# ranks. A unit that is off for every token has no derivatives, and one that is on for every token
# is linear: the rank of the Jacobian falls. So points are tried until every unit is on for some
# tokens and off for others, and every expert is chosen by some and not by others. Where that is not
# enough, points with the largest rank are searched in floats, many at once. This only chooses where
# to look: the rank at the point is proved separately (geometry/balls.py).


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


def points_to_try(spec: Architecture, seed: int, count: int) -> list[int]:
    """Seeds of real points, those with the most active units first.

    Without units or experts that may be off for every token, all points are equally good.
    """
    if not spec.piecewise:
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
    weights, X = _side_by_side(spec, seeds, _INPUTS)
    field = _Listening(len(seeds))
    with np.errstate(all="ignore"):  # dead units before a norm with eps = 0 give 0 / 0
        out = forward(field, spec, weights, X)
    usable: Array = np.isfinite(out).reshape(len(seeds), _INPUTS, -1).all(axis=2).mean(axis=1)
    if not field.rarest:  # all layers are dense: no expert is ever chosen
        return usable
    rarest = np.concatenate(field.rarest, axis=1)
    found: Array = usable * np.minimum(rarest, _OFTEN).mean(axis=1) / _OFTEN
    return found


def richer_points(spec: Architecture, at_most: int, seed: int, best: int, count: int) -> list[int]:
    """Seeds of points that may have a larger rank than the point with the seed `best`.

    Those with the largest ranks come first. Points are drawn until the largest has been seen often.
    """
    inputs = max(_INPUTS_FOR_RANK, -(-2 * at_most // prod(spec.output_shape)))
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
        and (len(ranks) <= _FEWEST or ranks.count(max(ranks)) < _SEEN)
    ):
        numbers = range(len(ranks), min(points + 1, len(ranks) + at_once))
        ranks += _ranks(spec, [seed_of(seed, n) for n in numbers], inputs, mixed).tolist()
    own, *ranks = ranks
    order = sorted(range(len(ranks)), key=lambda n: -ranks[n])
    return [seed_of(seed, n + 1) for n in order[:count] if ranks[n] > own]


def _ranks(spec: Architecture, seeds: list[int], inputs: int, mixed: Array) -> Array:
    """The numerical rank at each point, of few combinations of all rows, summed over the cuts."""
    weights, X = _side_by_side(spec, seeds, inputs)
    with np.errstate(all="ignore"):  # dead units before a norm with eps = 0 give 0 / 0
        J = jacobian(Real(), spec, weights, X)
    J = np.where(np.isfinite(J).all(axis=(1, 2), keepdims=True), J, 0)
    scaled = of_length_one(J.reshape(len(seeds), -1, spec.parameters))
    values = np.linalg.svd(mixed @ scaled, compute_uv=False)
    clear = values[..., None] > np.array(_CUTS) * values[:, :1, None]
    found: Array = clear.sum(axis=(1, 2))
    return found


def of_length_one(rows: Array) -> Array:
    """Rows divided by their length; those that are rounding are zero."""
    size = np.sqrt((rows * rows).sum(axis=-1, keepdims=True))
    return np.asarray(np.where(size > _ROUNDING, rows / np.where(size > 0, size, 1), 0))


def _side_by_side(spec: Architecture, seeds: list[int], inputs: int) -> tuple[Array, Array]:
    """The first inputs of several points, and for each of them the weights."""
    points = [RealPoint(spec, seed) for seed in seeds]
    weights = np.repeat(np.stack([point.weights for point in points]), inputs, axis=0)
    return weights, np.concatenate([point.inputs(np.arange(inputs)) for point in points])
