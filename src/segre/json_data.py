"""Data as JSON that every parser reads: numbers that are not finite are null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any


def strict_json(value: Any, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """A value as JSON.

    >>> strict_json((0.5, float("inf"), {"é": True}))
    '[0.5, null, {"é": true}]'
    """
    plainly = json_data(value)
    return json.dumps(
        plainly, ensure_ascii=False, allow_nan=False, indent=indent, sort_keys=sort_keys
    )


def json_data(value: Any) -> Any:
    """The value in types that JSON has; NumPy arrays are recognised by their `tolist`."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(_key(key)): json_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_data(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(json_data(item) for item in value)
    if isinstance(value, Fraction):
        return str(value)
    if hasattr(value, "tolist"):
        return json_data(value.tolist())
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def _key(key: Any) -> Any:
    return json.dumps(key) if key is None or isinstance(key, bool) else key
