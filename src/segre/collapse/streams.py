"""What is measured of the streams of a model as they go by, in the precision that they have."""

from __future__ import annotations

import numpy as np

from segre.collapse.residual import Measures, norm
from segre.collapse.sinks import without_largest
from segre.fields.interface import Array

SPECTRAL = ("rank", "stable_rank")
CACHED = 1 << 17  # numbers


def measured(X: Array, ranks: bool) -> dict[str, Array]:
    """What is measured of each stream of a batch (inputs, tokens, width)."""
    step = max(1, CACHED // (X.shape[1] * X.shape[2]))  # what fits the cache is measured fast
    parts = [of_streams(X[start : start + step]) for start in range(0, len(X), step)]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if ranks:
        finite = np.isfinite(X).all(axis=(1, 2), keepdims=True)
        every = Measures.of(np.where(finite, X, 0))
        found |= {name: np.asarray(vars(every)[name], float) for name in (*SPECTRAL, "spectrum")}
    return found


def of_streams(X: Array) -> dict[str, Array]:
    """The cheap measures. The mean is summed in double precision: equal tokens have residual 0."""
    n, d = X.shape[1:]
    rest = X - X.mean(axis=1, keepdims=True, dtype=np.float64).astype(X.dtype)
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
        **without_largest(X, size, relative, _relative),
    }


def _relative(X: Array) -> Array:
    rest = X - X.mean(axis=1, keepdims=True, dtype=np.float64).astype(X.dtype)
    return _share(norm(rest), norm(X))


def _frobenius(X: Array, axis: int | tuple[int, int]) -> Array:
    """In double precision: squares of small numbers are not lost."""
    return np.asarray(np.sqrt((X.astype(np.float64) ** 2).sum(axis=axis)))


def _share(part: Array, whole: Array) -> Array:
    return np.asarray(part / np.where(whole != 0, whole, 1), dtype=np.float64)
