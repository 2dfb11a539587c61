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


def stated(answer: Any, names: str, **made: Any) -> dict[str, Any]:
    """The document of an answer: the attributes that are named, in this order, as plain data.

    What has a document is replaced by it. `made` has values that are not attributes; those that are
    named as well stand in their place, the others come last.

    >>> stated(3 + 4j, "real size imag", size=5.0, unit="m")
    {'real': 3.0, 'size': 5.0, 'imag': 4.0, 'unit': 'm'}
    """
    wanted = names.split()
    return {
        name: made[name] if name in made else _plain(getattr(answer, name)) for name in wanted
    } | made


def _plain(value: Any) -> Any:
    """Answers as their documents, arrays and sequences as lists."""
    if hasattr(value, "document"):
        return value.document()
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _key(key: Any) -> Any:
    return json.dumps(key) if key is None or isinstance(key, bool) else key
