"""Over-smoothing: do tokens become alike, and does attention contract their differences?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.collapse.residual import mean_cosine
from segre.fields.interface import Array
from segre.inspect.measure import Finding, Measure
from segre.inspect.recorded import Recorded

ALIKE = 0.97
ABOVE = 2.0  # random causal patterns have 1.2 to 1.6


def cosine(recorded: Recorded) -> Array:
    """The mean cosine between two tokens."""
    return np.array([float(mean_cosine(X)) for X in recorded.streams])


def find_alike(_recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Depths at which tokens are similar."""
    depth = int(values.argmax())
    if values[depth] > ALIKE:
        yield Finding(
            measure="cosine",
            what=f"Tokens are similar at depth {depth}: their mean cosine is {values[depth]:.2f}.",
            means="The differences between tokens are small compared with their common part.",
            size=float(values[depth]),
            weight=1.0,
            typical=float(np.median(values)),
            depth=depth,
        )


def contraction(recorded: Recorded) -> Array | None:
    """The largest factor by which a pattern multiplies what tells tokens apart."""
    P = recorded.patterns
    if P is None:
        return None
    middle = P - P.mean(axis=-2, keepdims=True)
    middle = middle - middle.mean(axis=-1, keepdims=True)
    return np.asarray(np.linalg.norm(middle, 2, axis=(-2, -1)))


def find_above(_recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Whether the contraction of the theory says anything here."""
    above = float((values > 1).mean())
    if above > 0.5 and values.max() > ABOVE:
        yield Finding(
            measure="contraction",
            what=f"Attention does not contract: the factor of {100 * above:.0f} % of the heads is "
            f"above 1, up to {values.max():.1f}.",
            means="The over-smoothing bound multiplies these factors, so it says nothing about "
            "this model.",
            size=float(values.max()),
            weight=0.5,
            typical=float(np.median(values)),
        )


MEASURES = (
    Measure(
        "cosine",
        "Mean cosine of two tokens",
        "depth",
        "The mean over all pairs of different tokens.",
        cosine,
        find_alike,
    ),
    Measure(
        "contraction",
        "Factor on token differences",
        "head",
        "The spectral norm of the pattern between projections away from the mean token.",
        contraction,
        find_above,
    ),
)
