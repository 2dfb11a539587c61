"""Where does gradient descent end, from random weights of a quadratic network?

The output weights are +1 or -1 and stay what they are: M = W^T diag(signs) W. Rotations change
nothing, so the target is diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.geometry.progress import Progress, quiet
from segre.variety.quadratic import Ending, Norm, Signs

STEPS = 20_000
_LOOKS = 100  # losses that are kept of a run whenever its steps have doubled, for pictures
_NEAR = 1e-6
_FLAT = 1e-6


@dataclass(frozen=True)
class Runs:
    """Runs with the same output signs: their losses, and the minimum that each came to."""

    signs: Signs
    losses: tuple[float, ...]
    ends: tuple[Ending | None, ...]  # None: at none of the minima when the steps were used up
    steps: tuple[int, ...]
    curves: tuple[tuple[float, ...], ...]  # the losses of each run after these steps

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "output_signs": list(self.signs),
            "losses": list(self.losses),
            "ends": [None if end is None else end.point.document()["kept"] for end in self.ends],
        }


def descend(
    target: Sequence[float],
    signs: Signs,
    norm: Norm,
    minima: Sequence[Ending],
    starts: int,
    seed: int = 0,
    progress: Progress = quiet,
) -> Runs:
    """Gradient descent from random starts; a step that raises the loss is taken back and halved."""
    T = np.diag(np.array(target, dtype=np.float64))
    out = np.array([1.0] * signs[0] + [-1.0] * signs[1])[:, None]
    size = max(1.0, float(np.abs(T).max()))
    generator = np.random.default_rng([seed, *signs])
    W = generator.standard_normal((starts, len(out), len(T))) * np.sqrt(size / len(T))
    rate = np.full((starts, 1, 1), 0.01 / (size * (norm.square + norm.trace * len(T))))
    loss, slope = _loss(W, out, T, norm)
    steps, curves = [0], [loss.copy()]
    for step in range(1, STEPS + 1):
        tried = W - rate * slope
        fallen, steep = _loss(tried, out, T, norm)
        better = fallen <= loss
        W[better], loss[better], slope[better] = tried[better], fallen[better], steep[better]
        rate *= np.where(better, 1.05, 0.5)[:, None, None]
        if step >= (1 + 1 / _LOOKS) * steps[-1]:
            steps.append(step)
            curves.append(loss.copy())
            progress(f"gradient descent, {_words(signs)}", step, STEPS)
            if float(np.abs(slope).max(initial=0.0)) < _FLAT * size:
                break
    ends = tuple(_nearest(float(one), minima) for one in loss)
    kept = tuple(tuple(curve) for curve in np.array(curves).T.tolist())
    return Runs(signs, tuple(loss.tolist()), ends, tuple(steps), kept)


def _words(signs: Signs) -> str:
    return "+" * signs[0] + "-" * signs[1]


def _loss(W: Array, out: Array, T: Array, norm: Norm) -> tuple[Array, Array]:
    """The loss of each start, and its gradient."""
    error = W.swapaxes(-1, -2) @ (out * W) - T
    trace = np.trace(error, axis1=-2, axis2=-1)
    slope = norm.square * error + norm.trace * trace[:, None, None] * np.eye(len(T))
    loss = norm.square * (error**2).sum(axis=(-2, -1)) + norm.trace * trace**2
    return loss, 4 * out * (W @ slope)


def _nearest(loss: float, minima: Sequence[Ending]) -> Ending | None:
    near = [end for end in minima if abs(loss - float(end.point.loss)) <= _NEAR * (1 + loss)]
    return min(near, key=lambda end: abs(loss - float(end.point.loss)), default=None)
