"""Has a JSON value the form it must have? Strict: a JSON true is not a number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from segre.referee.rejection import RejectionError

# The reader of specs would raise 10 to any power.
_FRACTION = re.compile(r"[0-9]{1,20}(\.[0-9]{1,30})?(e[+-]?[0-9]{1,2})?|[0-9]{1,20}/[0-9]{1,20}")
_FRACTIONS = ("eps", "cap", "logitcap", "scale", "limit")


def check_fractions(spec: Mapping[str, Any]) -> None:
    """Require that the fractions of a spec, which are text, are numbers of a sane size."""
    for key in _FRACTIONS:
        text = spec.get(key)
        if isinstance(text, str) and not _FRACTION.fullmatch(text):
            raise RejectionError(f"spec: {key}: {quote(text)} is not a number")


def quote(value: object, longest: int = 60) -> str:
    """A value as it may stand in a one-line message."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if isinstance(value, str) and len(value) > longest:
        return repr(value[:longest] + "...")
    return repr(value)


def keys(value: Any, names: tuple[str, ...], where: str) -> None:
    """Require an object with exactly these keys."""
    if not isinstance(value, dict):
        raise RejectionError(f"{where}: {quote(value)} is not an object")
    for key in names:
        if key not in value:
            raise RejectionError(f"{where}: the key {key!r} is missing")
    for key in value:
        if key not in names:
            raise RejectionError(f"{where}: the key {quote(key)} is not allowed")


def items(value: Any, where: str, length: int | None = None) -> list[Any]:
    """Require a list, of this length if one is given."""
    if not isinstance(value, list):
        raise RejectionError(f"{where}: {quote(value)} is not a list")
    if length is not None and len(value) != length:
        raise RejectionError(f"{where}: {len(value)} entries, but there should be {length}")
    return value


def whole(value: Any, where: str, low: int, high: int) -> int:
    """Require a whole number low..high."""
    # True and False are integers to Python, but not to JSON.
    if type(value) is not int or not low <= value <= high:
        raise RejectionError(f"{where}: {quote(value)} is not a whole number from {low} to {high}")
    return value


def distinct(values: list[Any], where: str) -> None:
    """Require that no value occurs twice."""
    if len(set(values)) != len(values):
        raise RejectionError(f"{where}: an entry is listed twice")
