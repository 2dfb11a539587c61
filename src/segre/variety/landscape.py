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
from segre.fields.rational import fraction
from segre.files import read_given, shown
from segre.finding import Status, Unbounded
from segre.geometry.progress import Progress, quiet
from segre.models import Source
from segre.polynomial.spec import Polynomial
from segre.values import quote
from segre.variety.answer import polynomial, require_seed
from segre.variety.descent import Runs, descend
from segre.variety.metric import Metric, metric_named
from segre.variety.quadratic import (
    NORMS,
    CriticalPoint,
    Ending,
    Real,
    critical_points,
    endings,
    exact,
)

_LARGEST_FILE = 1 << 24
_MOST_STARTS = 1000
_EQUAL = 1e-9


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
        return {
            "spec": str(self.spec),
            "digest": self.spec.digest,
            "metric": self.metric,
            "status": self.status,
            "target": [exact(one) for one in self.target],
            "critical_points": [
                {**point.document(), "kind": self.kind(point)} for point in self.points
            ],
            "minima_by_output_signs": [one.document() for one in self.endings],
            "descent": [one.document() for one in self.runs],
            "seed": self.seed,
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
