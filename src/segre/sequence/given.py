"""Arrays as users give them: checked once, and refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np

from segre.attention.mechanism import Mechanism
from segre.errors import SegreError
from segre.fields.interface import Array


def floats(name: str, value: Any) -> Array:
    """An array of finite floats: float32 and float64 stay, other numbers become float64."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise SegreError(f"{name}: not a rectangular array of numbers") from None
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise SegreError(f"{name}: {array.dtype} is not allowed; allowed: arrays of real numbers")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    finite(name, array)
    return array


def finite(name: str, array: Array) -> None:
    """Refuse NaN and infinities. A finite sum shows that there are none, and is quick."""
    with np.errstate(all="ignore"):
        if np.isfinite(array.sum()):
            return
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise SegreError(
            f"{name}: {int(bad.sum())} of {array.size} numbers are NaN or infinite, the first at "
            f"{where}; give finite numbers"
        )


def heads_of(how: Mechanism, q: Any, k: Any, v: Any) -> tuple[Array, Array, Array]:
    """Queries, keys and values (..., tokens, width) of one dtype, whose shapes fit."""
    q, k, v = floats("queries", q), floats("keys", k), floats("values", v)
    shapes = f"queries, keys and values have shapes {q.shape}, {k.shape} and {v.shape}"
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise SegreError(f"{shapes}; allowed: matrices (tokens, width), or batches of them")
    fits = q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    fits = fits and q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]
    if how.masked:  # a query and a key have a distance
        fits = fits and q.shape[-2] == k.shape[-2]
    if not fits or 0 in (*q.shape, *k.shape, *v.shape):
        raise SegreError(
            f"{shapes}; allowed: (..., tokens, a) twice and (..., tokens, dv), with the same "
            "tokens and heads"
        )
    dtype = np.result_type(q, k, v)
    return q.astype(dtype, copy=False), k.astype(dtype, copy=False), v.astype(dtype, copy=False)


def whole_block(block: Any) -> int | None:
    """A block size; None means the default."""
    if block is None:
        return None
    if isinstance(block, bool) or not isinstance(block, int | np.integer) or block < 1:
        raise SegreError(f"block: {block!r} is not allowed; allowed: whole numbers from 1")
    return int(block)
