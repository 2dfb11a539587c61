"""Signal propagation: how large is the gradient by the stream at every depth?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.inspect.backward import gradients
from segre.inspect.measure import Finding, Measure
from segre.inspect.recorded import Recorded

FACTOR = 100.0


def norms(recorded: Recorded) -> Array:
    """Norms of the gradient of the loss, or of a random sum of outputs."""
    return np.array([float(np.linalg.norm(g)) for g in gradients(recorded).streams])


def find(_recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Gradients that vanish or explode on their way back."""
    if not np.isfinite(values).all() or values[-1] == 0:
        return
    ratio = float(values[0] / values[-1])
    if ratio > FACTOR or ratio < 1 / FACTOR:
        way = "grows" if ratio > 1 else "shrinks"
        way += f" by a factor of {max(ratio, 1 / ratio):,.3g}" if ratio else " to zero"
        yield Finding(
            measure="gradient",
            what=f"The gradient {way} from the last layer back to the first.",
            means="Layers learn at very different speeds unless the optimiser rescales gradients.",
            size=float(values.max()),
            weight=0.8,
            typical=float(np.median(values)),
            depth=0,
            extreme="none",
        )


MEASURES = (
    Measure(
        "gradient",
        "Norm of the stream gradient",
        "depth",
        "The gradient of the loss on these tokens, or of a random combination of outputs if there "
        "is no loss.",
        norms,
        find,
    ),
)
