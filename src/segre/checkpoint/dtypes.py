"""The number types of safetensors files, and rounding to them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from segre.fields.interface import Array

DType = np.dtype[Any]

NATIVE: dict[str, DType] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
}
FLOATS: dict[str, DType] = {
    **NATIVE,
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
}
DTYPES: dict[str, DType] = {
    **FLOATS,
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
    "C64": np.dtype("<c8"),
}


def dtype_name(dtype: DType) -> str:
    """The name of a type in safetensors files, or else in NumPy."""
    return next((name for name, known in DTYPES.items() if known == dtype), str(dtype))


def is_float(dtype: DType) -> bool:
    """Whether it is one of the floating-point types above."""
    return dtype in FLOATS.values()


def float_info(dtype: DType) -> Any:
    """The precision and range of a type, as `numpy.finfo`, also for the types of ml_dtypes."""
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def all_finite(values: Array) -> bool:
    """Whether all values are finite; suppresses the warnings of NumPy."""
    if not values.size:
        return True
    with np.errstate(invalid="ignore"):
        if values.dtype not in (np.float32, np.float64):
            return bool(np.isfinite(values).all())
        return bool(np.isfinite(values.min()) and np.isfinite(values.max()))


def as_floats(stored: Array, dtype: DType, *, copy: bool = False) -> Array:
    """Stored numbers as float32 or float64; a view where they are of that type, unless `copy`.

    A bfloat16 is the first half of a float32.

    >>> as_floats(np.array([1.5, -2], FLOATS["BF16"]), np.dtype("float32")).tolist()
    [1.5, -2.0]
    """
    if stored.dtype == FLOATS["BF16"]:
        wide = np.ascontiguousarray(stored).view(np.uint16).astype(np.uint32)
        wide <<= 16
        return wide.view(np.float32).astype(dtype, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        return stored.astype(dtype, copy=copy)


def rounded(values: Array, dtype: DType) -> Array:
    """Floats rounded to the nearest numbers of a type, ties to even; overflow is not finite.

    ml_dtypes converts through float32 and so would round twice. Rounding to odd there first
    (toward zero, then the last bit set if anything was lost) makes the second rounding right.

    >>> rounded(np.array([1 + 2**-8 + 2**-40]), FLOATS["BF16"]).astype(float).tolist()
    [1.0078125]
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if values.dtype == dtype or dtype in NATIVE.values():
            return values.astype(dtype, copy=False)
        exact = values.astype(np.float64)
        single = exact.astype(np.float32)
        bits = single.view(np.uint32)
        bits -= np.abs(single) > np.abs(exact)
        bits |= single != exact
        return single.astype(dtype)
