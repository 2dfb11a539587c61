"""What if the streams after all layers were fused? The remedy of the work on over-smoothing.

Tokens of all depths are fused by their entrywise maximum or mean, or side by side. Measured is how
unlike the fused tokens are; a trained gate is not part of it.

>>> streams = np.array([[[1.0, 0.0], [0.0, 1.0]]]), np.array([[[1.0, 1.0], [1.0, 1.0]]])
>>> fused = Fusion("max")
>>> for stream in streams:
...     fused.add((0, 0), stream)
>>> fused.relative((0, 0)).tolist()
[0.0]
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from segre.collapse.residual import relative_residual
from segre.errors import SpecError
from segre.fields.interface import Array

Fuse = Literal["max", "mean", "concat"]
FUSES = ("max", "mean", "concat")


class Fusion:
    """Streams of several places, each fused over its depths as they go by."""

    def __init__(self, how: str) -> None:
        if how not in FUSES:
            raise SpecError(f"fuse: {how!r} is not allowed; allowed: {', '.join(FUSES)}")
        self.how = how
        self._kept: dict[tuple[int, int], list[Array]] = {}

    def add(self, place: tuple[int, int], X: Array) -> None:
        """One more depth: tokens (inputs, n, d)."""
        kept = self._kept.setdefault(place, [])
        if self.how == "concat" or not kept:
            kept.append(np.array(X))
        elif self.how == "max":
            np.maximum(kept[0], X, out=kept[0])
        else:
            kept[0] += X  # the residual does not depend on the number of terms

    def relative(self, place: tuple[int, int]) -> Array:
        """The relative residual of the fused tokens, by input."""
        kept = self._kept.pop(place)
        fused = np.concatenate(kept, axis=-1) if self.how == "concat" else kept[0]
        with np.errstate(all="ignore"):
            return relative_residual(fused.astype(np.float64))
