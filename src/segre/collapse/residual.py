"""How far tokens are from being equal: measures of a token matrix X (n, d), tokens in rows.

The residual of X is X - 1 x^T, x a row. In the Frobenius norm the best row is the mean. In the
composite norm sqrt(norm_1 norm_inf) (largest column sum times largest row sum of absolute values),
which is that of the theorems, the best row has no closed form: the mean is taken there too, as in
the published code.

>>> X = np.array([[1.0, 2.0], [3.0, 2.0]])
>>> residual(X).tolist()
[[-1.0, 0.0], [1.0, 0.0]]
>>> float(relative_residual(X, "frobenius")) ** 2  # 2 / 18
0.111...
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from segre.fields.interface import Array

Norm = Literal["composite", "frobenius"]


def residual(X: Array) -> Array:
    """X minus its mean row, which is summed in double precision: equal tokens have residual 0."""
    mean = X.mean(axis=-2, keepdims=True, dtype=np.float64)
    return np.asarray(X - mean.astype(X.dtype))


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
    return share(norm(residual(X), kind), norm(X, kind))


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


def ranks(X: Array, tolerance: float | None = None) -> dict[str, Array]:
    """Rank, stable rank and singular values (over the largest) of each matrix (..., n, d).

    The rank is the number of singular values above `tolerance` times the largest: max(n, d) times
    the rounding unless given. The stable rank is the squared Frobenius norm over the squared
    spectral norm.
    """
    if tolerance is None:
        precision = X.dtype if X.dtype.kind == "f" else np.dtype(np.float64)
        tolerance = max(X.shape[-2:]) * float(np.finfo(precision).eps)
    values = spectrum(X.astype(np.float64))
    values = share(values, values[..., :1])
    return {
        "rank": np.asarray((values > tolerance).sum(axis=-1), float),
        "stable_rank": np.asarray((values**2).sum(axis=-1)),
        "spectrum": values,
    }


def share(part: Array, whole: Array) -> Array:
    """A part over the whole; as it is where the whole is 0."""
    return np.asarray(part / np.where(whole > 0, whole, 1))


def stays_below(logs: Array, limit: float) -> int | None:
    """The layer from which logarithms stay below a limit; None if they do not.

    >>> stays_below(np.array([-5.0, -1.0, -4.0, -6.0]), -3)
    2
    """
    above = np.flatnonzero(~(logs < limit))
    first = int(above[-1]) + 1 if above.size else 0
    return first if first < len(logs) else None


def log10_of(x: Array) -> Array:
    """log10, with -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log10(x))
