"""Numbers from untrusted files: JSON and .npz, of bounded size, never pickles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from segre.errors import WeightsError
from segre.fields.interface import Array
from segre.fields.rational import Rational
from segre.files import is_standard_input, read_given
from segre.values import parse_failure, quote
from segre.weights.npz import npz_arrays

LONGEST_FILE = 1 << 28
_ZIP = b"PK"  # how an .npz file begins


def read_arrays(path: Path, strings: tuple[str, ...] = ()) -> dict[str, Any]:
    """The contents of a .json or .npz file or of standard input, by name.

    Arrays of an .npz file are float64; only those called `strings` are text. Values of a JSON file
    are returned unchanged.
    """
    piped = is_standard_input(path)
    if path.suffix not in {".json", ".npz"} and not piped:
        if path.is_dir():
            raise WeightsError(
                "this is a directory, not a file of weights; to compare checkpoints use segre "
                "same ONE TWO or segre diff ONE TWO"
            )
        raise WeightsError(
            "unknown file type; allowed: .json and .npz files, or - for standard input"
        )
    try:
        data = read_given(path, LONGEST_FILE)
    except OSError as error:
        raise WeightsError(error.strerror or str(error)) from None
    if path.suffix == ".npz" or (piped and data.startswith(_ZIP)):
        return npz_arrays(data, LONGEST_FILE, strings)
    return _json_object(data)


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"not a JSON document ({parse_failure(error)})") from None
    if not isinstance(document, dict):
        raise WeightsError("not a table of keys and values")
    return document


def number_array(value: Any, name: str) -> Array:
    """Nested lists as an array: exact if all numbers are integers or strings, else float64."""
    try:
        given = np.array(value, dtype=object)
        flat = given.reshape(-1).tolist()
        if any(
            not isinstance(item, int | float | str) or item is True or item is False
            for item in flat
        ):
            raise ValueError("not a rectangular array of numbers")
        if any(isinstance(item, float) for item in flat):
            numbers = np.array([float(item) for item in flat])
            if not np.isfinite(numbers).all():
                raise ValueError("a NaN or an infinity")
            return numbers.reshape(given.shape)
        return Rational().constant(given)
    except RecursionError:
        raise WeightsError(f"{name}: nested too deeply") from None
    except (ValueError, OverflowError, ZeroDivisionError, TypeError) as error:
        said = str(error) if len(str(error)) <= 200 else quote(str(error))
        raise WeightsError(f"{name}: {said}") from None


def common_kind(arrays: list[Array]) -> list[Array]:
    """Arrays with one kind of numbers: exact only if all arrays are."""
    if all(array.dtype == object for array in arrays):
        return arrays
    return [
        array.astype(np.float64) if array.dtype != object else _floats(array) for array in arrays
    ]


def _floats(array: Array) -> Array:
    try:
        flat = [int(x.p) / int(x.q) for x in array.reshape(-1).tolist()]
    except OverflowError:
        raise WeightsError(
            "a fraction is too large for a float, and other numbers are floats; give fractions only"
        ) from None
    return np.array(flat, dtype=np.float64).reshape(array.shape)
