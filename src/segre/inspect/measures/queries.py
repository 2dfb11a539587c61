"""The spectrum of W_Q' W_K beside localisation.

Eigenvalues come from the small matrix W_K W_Q' of a head, gains of the norm folded in. Their mean
over the width is tr / d; a wide spectrum with mean zero localises attention, says the theory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.inspect.measure import Finding, Measure
from segre.inspect.measures.spread import entropy
from segre.inspect.recorded import Recorded

CLEAR = 4.0  # standard deviations of a rank correlation of independent numbers


def mean(recorded: Recorded) -> Array | None:
    """tr(W_Q' W_K) / d."""
    found = _spectra(recorded)
    return None if found is None else np.asarray(found.real.sum(axis=-1) / recorded.spec.d)


def scale(recorded: Recorded) -> Array | None:
    """The root mean square of the eigenvalues over the width, about their mean."""
    found = _spectra(recorded)
    if found is None:
        return None
    d = recorded.spec.d
    middle = found.real.sum(axis=-1) / d
    square = (np.abs(found) ** 2).sum(axis=-1) / d - middle**2
    return np.asarray(np.sqrt(square.clip(0)))


def _spectra(recorded: Recorded) -> Array | None:
    every = [layer.queries for layer in recorded.layers if layer.queries is not None]
    return np.stack(every) if len(every) == len(recorded.layers) else None


def find(recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Whether heads with larger eigenvalues attend more locally."""
    spread = entropy(recorded)
    if spread is None or values.size < 8 or values.std() == 0 or spread.std() == 0:
        return
    together = float(np.corrcoef(_ranks(values), _ranks(spread))[0, 1])
    if abs(together) * (values.size - 1) ** 0.5 > CLEAR:
        way = "more concentrated" if together < 0 else "more spread out"
        yield Finding(
            measure="query-scale",
            what=f"Heads with a wider spectrum of W_Q' W_K have {way} attention: rank "
            f"correlation with its entropy {together:+.2f} over {values.size} heads.",
            means="The weights alone partly determine how concentrated attention is.",
            size=abs(together),
            weight=abs(together),
            extreme="none",
        )


def _ranks(values: Array) -> Array:
    return np.asarray(values.reshape(-1).argsort().argsort())


MEASURES = (
    Measure(
        "query-mean",
        "W_Q' W_K, mean eigenvalue",
        "head",
        "The trace of W_Q' W_K over the width, gains of the norm folded in.",
        mean,
    ),
    Measure(
        "query-scale",
        "W_Q' W_K, spread",
        "head",
        "Root mean square of the eigenvalues about their mean, over the width.",
        scale,
        find,
    ),
)
