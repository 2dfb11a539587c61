"""How spread out, and how far back, do heads attend?"""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array
from segre.inspect.measure import Measure
from segre.inspect.recorded import Recorded


def entropy(recorded: Recorded) -> Array | None:
    """Mean entropy of a query's attention, as a share of that of the uniform one."""
    P = recorded.patterns
    if P is None:
        return None
    n = recorded.tokens
    seen = np.arange(1, n + 1) if recorded.spec.causal else np.full(n, n)
    logs = np.log(np.where(P > 0, P, 1.0))
    found = -(P * logs).sum(axis=-1) / np.log(np.maximum(seen, 2))
    return np.asarray(found[..., seen > 1].mean(axis=-1))


def distance(recorded: Recorded) -> Array | None:
    """Mean distance, in tokens, to what is attended to."""
    P = recorded.patterns
    if P is None:
        return None
    places = np.arange(recorded.tokens)
    return np.asarray((P * np.abs(places[:, None] - places)).sum(axis=-1).mean(axis=-1))


MEASURES = (
    Measure(
        "entropy",
        "Entropy of attention",
        "head",
        "The mean over queries, divided by the logarithm of the number of tokens they see.",
        entropy,
    ),
    Measure(
        "distance",
        "Attended distance, tokens",
        "head",
        "The mean distance between a query and the tokens it attends to.",
        distance,
    ),
)
