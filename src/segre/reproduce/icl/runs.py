"""What is measured: both forms on the expected loss, and the separate one on data as well."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.reproduce.icl.descent import Start, merged, separate, steps_near
from segre.reproduce.icl.fixed_points import FixedPoint, steps_by_point
from segre.reproduce.icl.loss import Quadratic, drawn, levels, predicted, sequences

EIGENVALUES = tuple(Fraction(k, 10) for k in (4, 3, 2, 1))
CONTEXT = 31
HEADS = 5
RATE = 0.05
CURVE = 240  # points of a curve that are kept


def separate_run(
    loss: Quadratic,
    start: Start,
    steps: int,
    points: Sequence[FixedPoint],
    known: list[float],
    seeds: tuple[int, ...],
    tested: int,
) -> dict[str, Any]:
    """Key and query separate, on the expected loss; then the trained layer on drawn sequences."""
    path = separate(loss, start, steps, RATE)
    losses = loss.value(path.W)
    floats = [float(value) for value in EIGENVALUES]
    off = []
    for place, (seed, v, k, q) in enumerate(zip(seeds, path.v, path.k, path.q, strict=True)):
        rng = np.random.default_rng([seed, 2501])
        tokens, labels = sequences(floats, CONTEXT, tested, rng)
        errors = (labels - predicted(v, k, q, tokens)) ** 2
        off.append((errors.mean() - losses[-1, place]) / (errors.std() / len(errors) ** 0.5))
    return _summary(path.W, losses, points, known) | {"off": off}


def merged_run(
    loss: Quadratic, start: Start, steps: int, points: Sequence[FixedPoint], known: list[float]
) -> dict[str, Any]:
    """Key and query merged, on the expected loss."""
    path = merged(loss, start, steps, RATE)
    return _summary(path, loss.value(path), points, known)


def _summary(
    path: Array, losses: Array, points: Sequence[FixedPoint], known: list[float]
) -> dict[str, Any]:
    return {
        "near levels": [steps_near(losses, level) for level in known],
        "near points": steps_by_point(path, points),
        "last": losses[-1],
        **_curve(losses),
    }


def data_run(
    loss: Quadratic, start: Start, steps: int, seeds: tuple[int, ...], count: int
) -> dict[str, Any]:
    """The same descent on the mean loss of drawn sequences, and its expected loss."""
    floats = [float(value) for value in EIGENVALUES]
    every = [
        drawn(*sequences(floats, CONTEXT, count, np.random.default_rng([seed, 99])))
        for seed in seeds
    ]
    own = Quadratic(
        np.array([one.constant for one in every]),
        np.stack([one.linear for one in every]),
        np.stack([one.square for one in every]),
    )
    path = separate(own, start, steps, RATE)
    known = np.array([float(value) for value in levels(EIGENVALUES, CONTEXT)])
    expected = loss.value(path.W)[..., None]
    near_one = (abs(expected - known) <= 0.05 * known).any(axis=-1).mean(axis=0)
    losses = own.value(path.W)
    return {"last": losses[-1], "near a level": near_one, **_curve(losses)}


def _curve(losses: Array) -> dict[str, Any]:
    """Steps that are evenly apart on a logarithmic axis, and the losses there."""
    last = len(losses) - 1
    at = np.unique(np.geomspace(min(30, last), last, CURVE).astype(int)) if last else np.array([0])
    return {"at": at, "losses": losses[at].T}
