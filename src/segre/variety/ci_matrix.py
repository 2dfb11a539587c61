"""A matrix of exact fractions, read from an untrusted CSV or JSON file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.files import read_given
from segre.values import parse_failure, quote
from segre.weights.arrays import number_array

LONGEST_FILE = 1 << 22
ENDINGS = (".csv", ".json")


def read_matrix(path: Path) -> Array:
    """The rows of a .csv or .json file: whole numbers, 3/7 or 0.5 (in JSON, as strings)."""
    name = f"matrix {quote(str(path))}"
    if path.suffix.lower() not in ENDINGS:
        raise SegreError(f"{name}: unknown file type; allowed: {' and '.join(ENDINGS)} files")
    try:
        data = read_given(path, LONGEST_FILE).decode()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "not text in UTF-8"
        raise SegreError(f"{name}: {said}") from None
    rows = _of_csv(data, name) if path.suffix.lower() == ".csv" else _of_json(data, name)
    try:
        found = number_array(rows, "rows")
    except WeightsError as error:
        raise SegreError(f"{name}: {error}") from None
    if found.dtype != object:
        raise SegreError(f'{name}: floats are not exact; write fractions as strings, such as "1/2"')
    if found.ndim != 2 or not found.size:
        raise SegreError(f"{name} has {found.ndim} axes; allowed: a list of rows of equal length")
    return found


def _of_csv(text: str, name: str) -> list[list[str]]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
    except csv.Error as error:
        raise SegreError(f"{name}: {error}") from None
    if len({len(row) for row in rows}) != 1:
        raise SegreError(f"{name} has no rows, or rows of different lengths")
    return rows


def _of_json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SegreError(f"{name}: not a JSON document ({parse_failure(error)})") from None
