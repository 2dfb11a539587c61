"""How far tokens are from being equal: measures of a token matrix X (n, d), tokens in rows.

The residual of X is X - 1 x^T, x a row. In the Frobenius norm the best row is the mean. In the
composite norm sqrt(norm_1 norm_inf) (largest column sum times largest row sum of absolute values),
which is that of the theorems, the best row has no closed form: the mean is taken there too, as in
the published code, and `bracket` says how far it can be from the best.

>>> X = np.array([[1.0, 2.0], [3.0, 2.0]])
>>> residual(X).tolist()
[[-1.0, 0.0], [1.0, 0.0]]
>>> float(relative_residual(X, "frobenius")) ** 2  # 2 / 18
0.111...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from segre.fields.interface import Array

Norm = Literal["composite", "frobenius"]


def residual(X: Array) -> Array:
    """X minus its mean row."""
    return np.asarray(X - X.mean(axis=-2, keepdims=True))


def norm_1(X: Array) -> Array:
    """The largest column sum of absolute values."""
    return np.asarray(np.abs(X).sum(axis=-2).max(axis=-1))


def norm_inf(X: Array) -> Array:
    """The largest row sum of absolute values."""
    return np.asarray(np.abs(X).sum(axis=-1).max(axis=-1))


def norm(X: Array, kind: Norm = "composite") -> Array:
    """The norm of each matrix."""
    if kind == "frobenius":
        return np.asarray(np.linalg.norm(X, axis=(-2, -1)))
    return np.asarray(np.sqrt(norm_1(X)) * np.sqrt(norm_inf(X)))


def relative_residual(X: Array, kind: Norm = "composite") -> Array:
    """norm(residual) / norm(X); 0 if X is 0."""
    return _share(norm(residual(X), kind), norm(X, kind))


def bracket(X: Array) -> tuple[Array, Array]:
    """Two numbers between which the least composite norm of X - 1 x^T over all rows x lies.

    Below: the median minimises every column sum, and no row is nearer to all tokens than half
    their largest distance. Above: the better of mean and median. The mean is never worse than
    2 (1 - 1/n) times the best.
    """
    apart = X - np.median(X, axis=-2, keepdims=True)
    distances = np.abs(X[..., :, None, :] - X[..., None, :, :]).sum(axis=-1)
    widest = distances.max(axis=(-2, -1)) / 2
    below = np.sqrt(norm_1(apart)) * np.sqrt(widest)
    return np.asarray(below), np.minimum(norm(residual(X)), norm(apart))


def spectrum(X: Array) -> Array:
    """Singular values, largest first: (..., min(n, d))."""
    return np.asarray(np.linalg.svd(X, compute_uv=False))


def mean_cosine(X: Array) -> Array:
    """The mean cosine between two different tokens; a token that is 0 has cosine 0 with all."""
    size = np.linalg.norm(X, axis=-1, keepdims=True)
    unit = X / np.where(size > 0, size, 1)
    n = X.shape[-2]
    if n == 1:
        return np.ones(X.shape[:-2])
    square = (unit.sum(axis=-2) ** 2).sum(axis=-1)
    return np.asarray((square - (size[..., 0] > 0).sum(axis=-1)) / (n * (n - 1)))


@dataclass(frozen=True)
class Measures:
    """What is measured of one token matrix, or of each in a batch (then entries are arrays)."""

    residual: Array  # composite norm, from the mean row
    residual_frobenius: Array
    relative: Array
    relative_frobenius: Array
    rank: Array  # singular values above `tolerance` times the largest
    stable_rank: Array  # squared Frobenius norm over squared spectral norm
    cosine: Array  # mean cosine between two tokens
    spectrum: Array  # singular values, over the largest
    tolerance: float

    @classmethod
    def of(cls, X: Array, tolerance: float | None = None) -> Measures:
        """Measure X (..., n, d); the tolerance is max(n, d) times the rounding unless given."""
        given = np.asarray(X)
        if tolerance is None:
            precision = given.dtype if given.dtype.kind == "f" else np.dtype(np.float64)
            tolerance = max(given.shape[-2:]) * float(np.finfo(precision).eps)
        tokens = given.astype(np.float64)
        rest = residual(tokens)
        values = spectrum(tokens)
        largest = values[..., :1]
        values = _share(values, largest)
        return cls(
            residual=norm(rest),
            residual_frobenius=norm(rest, "frobenius"),
            relative=_share(norm(rest), norm(tokens)),
            relative_frobenius=_share(norm(rest, "frobenius"), norm(tokens, "frobenius")),
            rank=np.asarray((values > tolerance).sum(axis=-1)),
            stable_rank=np.asarray((values**2).sum(axis=-1)),
            cosine=mean_cosine(tokens),
            spectrum=values,
            tolerance=tolerance,
        )

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}


def _share(part: Array, whole: Array) -> Array:
    return np.asarray(part / np.where(whole > 0, whole, 1))
