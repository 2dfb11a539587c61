"""What is measured of the streams of a model as they go by, in the precision that they have.

Trained models send attention that is not needed to one token, mostly the first, which then has many
times the norm of the others. The residual of all tokens is that of this token then, and says little
of the rest: it is measured without the token, too.

The remedy of the work on over-smoothing is to fuse the streams after all layers: by their entrywise
maximum or mean, or side by side. Measured is how unlike the fused tokens are; a trained gate is not
part of it.

>>> streams = np.array([[[1.0, 0.0], [0.0, 1.0]]]), np.array([[[1.0, 1.0], [1.0, 1.0]]])
>>> fused = Fusion("max")
>>> for stream in streams:
...     fused.add((0, 0), stream)
>>> fused.relative((0, 0)).tolist()
[0.0]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from segre.checkpoint.inputs import Inputs, token_name
from segre.checkpoint.model import Model
from segre.collapse.residual import norm, ranks, relative_residual, residual
from segre.errors import SpecError
from segre.fields.interface import Array

CACHED = 1 << 17  # numbers
DOMINANT = 10.0  # times the median norm of the tokens
FUSES = ("max", "mean", "concat")


def measured(X: Array, spectra: bool) -> dict[str, Array]:
    """What is measured of each stream of a batch (inputs, tokens, width)."""
    step = max(1, CACHED // (X.shape[1] * X.shape[2]))  # what fits the cache is measured fast
    parts = [of_streams(X[start : start + step]) for start in range(0, len(X), step)]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if spectra:
        found |= ranks(np.where(np.isfinite(X).all(axis=(1, 2), keepdims=True), X, 0))
    return found


def of_streams(X: Array) -> dict[str, Array]:
    """The cheap measures. The mean is summed in double precision: equal tokens have residual 0."""
    n, d = X.shape[1:]
    rest = residual(X)
    size = _frobenius(X, axis=2)
    whole = _frobenius(size, axis=1)
    weights = 1 / np.where(size != 0, size, 1)
    total = (weights[:, None].astype(X.dtype) @ X)[:, 0].astype(float)
    relative = _share(norm(rest), norm(X))
    return {
        "relative": relative,
        "relative_frobenius": _share(_frobenius(rest, axis=(1, 2)), whole),
        "cosine": ((total**2).sum(axis=1) - (size != 0).sum(axis=1)) / (n * (n - 1)),
        "size": whole / (n * d) ** 0.5,
        **without_largest(X, size, relative),
    }


def _frobenius(X: Array, axis: int | tuple[int, int]) -> Array:
    """In double precision: squares of small numbers are not lost."""
    return np.asarray(np.sqrt((X.astype(np.float64) ** 2).sum(axis=axis)))


def _share(part: Array, whole: Array) -> Array:
    return np.asarray(part / np.where(whole != 0, whole, 1), dtype=np.float64)


def without_largest(X: Array, size: Array, relative: Array) -> dict[str, Array]:
    """Of streams X (inputs, tokens, width), norms of tokens `size`: which is largest, by how much.

    `without` is the relative residual without the largest token, where that dominates.
    """
    position = size.argmax(axis=1)
    middle = np.sort(size, axis=1)[:, (size.shape[1] - 1) // 2]
    factor = size.max(axis=1) / np.where(middle != 0, middle, 1)
    without = np.array(relative)
    for i in np.flatnonzero(factor >= DOMINANT):
        others = np.delete(X[i], position[i], axis=0)[None]
        without[i] = _share(norm(residual(others)), norm(others))[0]
    return {"factor": factor, "position": position, "without": without}


@dataclass(frozen=True)
class Sink:
    """The token of largest norm, where one dominates."""

    position: int  # counted from 0
    inputs: int  # in how many of them it is this one
    of: int  # how many inputs there are
    factor: float  # its norm over the median norm of tokens, mean over inputs, where it is largest
    layer: int  # and after which layer that is
    text: str | None = None  # what it says, if a tokenizer knows and it is the same in all inputs

    @property
    def name(self) -> str:
        """What to call it.

        >>> Sink(0, 8, 8, 165.2, 12, "<s>").name, Sink(3, 5, 8, 11.0, 2).name
        ('token 0 ("<s>")', 'token 3 (in 5 of 8 inputs)')
        """
        some = "" if self.inputs == self.of else f" (in {self.inputs} of {self.of} inputs)"
        said = "" if self.text is None else f' ("{self.text}")'
        return f"token {self.position}{said}{some}"


def sink_of(
    values: Mapping[str, Array], model: Model, inputs: Inputs, lost: int | None = None
) -> Sink | None:
    """The token that dominates, from its measures (layers + 1, inputs); None if there is none.

    From layer `lost` on numbers mean nothing.
    """
    factor = np.where(np.isfinite(values["factor"]), values["factor"], 0).mean(axis=-1)
    factor[len(factor) if lost is None else lost :] = 0
    layer = int(factor.argmax())
    if factor[layer] < DOMINANT:
        return None
    positions = Counter(values["position"][layer].astype(int).tolist())
    position, count = positions.most_common(1)[0]
    text = token_name(model, inputs, position)
    return Sink(position, count, inputs.count, float(factor[layer]), layer, text)


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
