"""What does the loss of a quadratic network look like, for one target?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from segre.errors import SegreError, UnsupportedError
from segre.fields.interface import Array
from segre.fields.rational import fraction
from segre.files import read_given, shown
from segre.finding import Status, Unbounded
from segre.geometry.progress import Progress, quiet
from segre.models import Source
from segre.polynomial.spec import Polynomial
from segre.values import quote
from segre.variety.answer import polynomial, require_seed
from segre.variety.metric import Metric, metric_named
from segre.variety.quadratic import (
    NORMS,
    CriticalPoint,
    Ending,
    Norm,
    Real,
    Signs,
    critical_points,
    endings,
    exact,
)

_LARGEST_FILE = 1 << 24
_MOST_STARTS = 1000
_EQUAL = 1e-9
STEPS = 20_000
_LOOKS = 100  # losses that are kept of a run whenever its steps have doubled, for pictures
_NEAR = 1e-6
_FLAT = 1e-6


@dataclass(frozen=True)
class Landscape(Unbounded):
    """All critical points of a quadratic network, the minima among them, and descents."""

    spec: Polynomial
    metric: Metric
    target: tuple[Real, ...]
    points: tuple[CriticalPoint, ...]
    endings: tuple[Ending, ...]
    runs: tuple[Runs, ...] = ()
    seed: int = 0
    how: ClassVar[str] = (
        "every critical point keeps some eigenvectors of the target (docs/variety.md)"
    )

    @property
    def value(self) -> tuple[CriticalPoint, ...]:
        """The critical points, the smallest loss first."""
        return self.points

    @property
    def status(self) -> Status:
        """`exact` if the eigenvalues of the target are."""
        return "exact" if all(isinstance(one, Fraction) for one in self.target) else "measured"

    def kind(self, point: CriticalPoint) -> str:
        """Global minimum, local minimum or saddle."""
        if point.degenerate:
            return "of smaller rank"
        if point.loss == self.points[0].loss:
            return "global minimum"
        return f"saddle, index {point.index}" if point.index else "local minimum"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        points = [{**point.document(), "kind": self.kind(point)} for point in self.points]
        return {
            **{"spec": str(self.spec), "digest": self.spec.digest, "metric": self.metric},
            **{"status": self.status, "target": [exact(one) for one in self.target]},
            "critical_points": points,
            "minima_by_output_signs": [one.document() for one in self.endings],
            **{"descent": [one.document() for one in self.runs], "seed": self.seed},
        }


def landscape(
    spec: Source,
    target: str | Path | Sequence[Any],
    metric: str = "gaussian",
    *,
    descent: int = 0,
    seed: int = 0,
    progress: Progress = quiet,
) -> Landscape:
    """All critical points of poly/n-r-1/degree=2 for a target.

    The `metric` is as in `critical`. The `target` is given by its eigenvalues ("3,2,1,-1.5", or
    numbers), as a symmetric matrix, or as a .json or .npy file with such a matrix. Given
    eigenvalues, and those of diagonal matrices, are exact; others are floats. `descent` is the
    number of starts of gradient descent for each choice of output signs.

    >>> found = landscape("poly/4-2-1/degree=2", "3,2,1,-1.5")
    >>> [float(point.loss) for point in found.points]
    [6.625, 12.625, 14.5, 23.625, 28.0, 38.5]
    """
    require_seed(seed)
    net = polynomial(spec, "a landscape")
    chosen = metric_named(metric)
    if net.convolutional or net.degree != 2 or net.depth != 2 or net.widths[2] > 1 or net.bias:
        raise UnsupportedError(
            f"--target does not support {net}; supported: poly/n-r-1/degree=2 without biases"
        )
    if chosen not in NORMS:
        raise UnsupportedError(
            f"--target does not support the metric {chosen!r}; supported: {', '.join(NORMS)}"
        )
    if not 0 <= descent <= _MOST_STARTS:
        raise SegreError(f"{descent} starts are not allowed; allowed: 0 to {_MOST_STARTS}")
    size, rank, norm = net.width_in, net.widths[1], NORMS[chosen]
    values = _eigenvalues(target, size)
    points = critical_points(values, rank, norm)
    minima = endings(values, rank, norm)
    floats = [float(one) for one in values]
    runs = [
        descend(
            floats,
            signs,
            norm,
            [one for one in minima if one.signs == signs],
            descent,
            seed,
            progress,
        )
        for signs in [(plus, rank - plus) for plus in range(rank, -1, -1)]
        if descent
    ]
    return Landscape(net, chosen, values, points, minima, tuple(runs), seed)


def _eigenvalues(target: str | Path | Sequence[Any], size: int) -> tuple[Real, ...]:
    """Descending, and all different."""
    given = _given(target)
    try:
        found = _of_matrix(given, size) if np.ndim(given) == 2 else _listed(given)
    except (ValueError, TypeError, OverflowError, ZeroDivisionError, np.linalg.LinAlgError):
        raise SegreError(
            f"target {quote(str(target))} cannot be read; allowed: eigenvalues such as 3,2,-1.5, "
            "or a .json or .npy file with a symmetric matrix"
        ) from None
    if len(found) != size:
        raise SegreError(
            f"the target has {len(found)} eigenvalues, but the network has {size} inputs; give "
            f"{size} eigenvalues"
        )
    values = sorted(found, reverse=True)
    scale = max(abs(float(one)) for one in values)
    close = 0.0 if isinstance(values[0], Fraction) else _EQUAL * scale
    if any(a - b <= close for a, b in pairwise(values)):
        raise SegreError(
            "two eigenvalues of the target are equal, so critical points come in families; give "
            "distinct eigenvalues"
        )
    return tuple(values)


def _given(target: str | Path | Sequence[Any]) -> Any:
    if not isinstance(target, str | Path):
        return np.asarray(target, dtype=object) if not isinstance(target, np.ndarray) else target
    path = Path(target)
    if isinstance(target, Path) or path.suffix in (".json", ".npy"):
        try:
            data = read_given(path, _LARGEST_FILE)
            if path.suffix == ".npy":
                from io import BytesIO

                return np.load(BytesIO(data), allow_pickle=False)
            return np.asarray(json.loads(data), dtype=object)
        except OSError as error:
            reason = error.strerror or error
            raise SegreError(f"target {shown(path)} cannot be read: {reason}") from None
        except (ValueError, RecursionError):
            raise SegreError(
                f"target {shown(path)} is not a matrix; allowed: .json or .npy with a symmetric "
                "matrix"
            ) from None
    return np.asarray(target.split(","), dtype=object)


def _listed(given: Any) -> list[Real]:
    return [_number(one) for one in np.ravel(given).tolist()]


def _number(item: Any) -> Fraction:
    found = fraction(item.strip() if isinstance(item, str) else item)
    return Fraction(int(found.p), int(found.q))


def _of_matrix(given: Any, size: int) -> list[Real]:
    if given.shape != (size, size):
        raise SegreError(
            f"the target is a {given.shape[0]} x {given.shape[1]} matrix; allowed: {size} x {size}"
        )
    rows = [[_number(one) for one in row] for row in given.tolist()]
    if any(rows[i][j] != rows[j][i] for i in range(size) for j in range(i)):
        raise SegreError("the target is not symmetric; allowed: a symmetric matrix")
    if not any(rows[i][j] for i in range(size) for j in range(i)):
        return [rows[i][i] for i in range(size)]
    return [float(one) for one in np.linalg.eigvalsh(np.array(rows, dtype=np.float64))]


# --- descent --------------------------------------------------------------------------------------


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
    """Gradient descent from random starts; a step that raises the loss is taken back and halved.

    The output weights are +1 or -1 and stay what they are: M = W^T diag(signs) W. Rotations change
    nothing, so the target is diagonal.
    """
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
