"""How many complex critical points has the squared loss of a polynomial network, for generic data?

The squared loss is a squared distance between functions: expected over inputs, it is a quadratic
form in the coefficients, and the target function is the data. Critical points are counted on the
smooth part of the function variety: its Euclidean distance degree for that metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.progress import Progress, quiet
from segre.models import Source
from segre.polynomial.spec import Polynomial
from segre.variety.answer import SECONDS, Number, number
from segre.variety.counting import Count, critical_points
from segre.variety.groebner import Limits
from segre.variety.metric import Metric, metric_named


@dataclass(frozen=True)
class Critical(Number):
    """The number of critical points for a metric, and how it is known."""

    metric: Metric = "generic"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {**super().document(), "metric": self.metric}


def critical(
    spec: Source,
    metric: str = "generic",
    seed: int = 0,
    *,
    seconds: float = SECONDS,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> Critical:
    """The number of critical points, by a formula where one is proved and by counting mod p.

    The `metric` says which squared loss: `generic` is a generic quadratic form, `gaussian` the
    expected loss on standard normal inputs, `identity` the Frobenius norm of symmetric tensors. The
    count is a proved lower bound; it is given up after so many `seconds`.

    >>> found = critical("cnn/k=2,2/degree=2")
    >>> found.value, found.count.functions
    (14, 14)
    >>> critical("poly/3-1-1/degree=2", "gaussian").value
    3
    """
    chosen = metric_named(metric)

    def count(net: Polynomial, free: int, own: int, limits: Limits) -> Count:
        return critical_points(net, free, chosen, own, limits)

    found = number(
        *(spec, "the number of critical points", lambda named: named.critical(chosen), count),
        *(seed, seconds, memory, progress),
    )
    return Critical(**vars(found), metric=chosen)
