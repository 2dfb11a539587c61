"""Is there a JSON object of this format to be read? Bounded in size, depth and time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segre.errors import CertificateError
from segre.files import read_given
from segre.referee.rejection import RejectionError
from segre.referee.shapes import quote

FORMAT = "segre-certificate"
VERSIONS = (1, 2, 3, 4, 5)
LARGEST_FILE = 256 << 20
MOST_VALUES = 4_000_000
DEEPEST = 16
LONGEST_NUMBER = 40


def read(source: str | Path | Mapping[str, Any]) -> tuple[dict[str, Any], RejectionError | None]:
    """The certificate, plain and of known format, and what is wrong with its JSON, if anything.

    Faults that leave the file readable (a key twice, NaN, a fraction) are returned, not
    raised, so that a file of another format is told apart first.
    """
    faults: list[str] = []
    if isinstance(source, Mapping):
        name = "certificate"
        document = _plain(source, faults, DEEPEST)
    elif not isinstance(source, str | Path):
        raise CertificateError(
            f"a {type(source).__name__} is not a certificate; give a file or a mapping"
        )
    else:
        name = f"certificate {quote(str(source), 200)}"
        document = _parse(_bytes(source, name), faults, name)
        _measure(document, name)
    if not isinstance(document, dict):
        raise CertificateError(f"{name}: not a JSON object; give a file written by segre certify")
    if "format" not in document:
        raise CertificateError(f"{name}: no key 'format'; give a file written by segre certify")
    if document["format"] != FORMAT:
        raise CertificateError(f"{name}: format {quote(document['format'])}; allowed: {FORMAT!r}")
    version = document.get("version")
    if type(version) is not int or version not in VERSIONS:
        allowed = ", ".join(map(str, VERSIONS))
        raise CertificateError(f"{name}: version {quote(version)}; allowed: {allowed}")
    return document, RejectionError(faults[0]) if faults else None


def _bytes(source: str | Path, name: str) -> bytes:
    try:
        data = read_given(source, LARGEST_FILE)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise CertificateError(f"{name}: cannot be read ({reason or error})") from None
    # Python objects are far larger than their text, so values are counted before any is made.
    if sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise CertificateError(f"{name}: more than {MOST_VALUES} values")
    return data


def _parse(data: bytes, faults: list[str], name: str) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            twice, _ = Counter(key for key, _ in items).most_common(1)[0]
            faults.append(f"the key {quote(twice)} is given twice in one object")
        return result

    def number(text: str) -> int | None:
        if len(text) > LONGEST_NUMBER:
            faults.append(f"a number of {len(text)} digits is out of all ranges")
            return None
        return int(text)

    def foreign(text: str) -> None:
        faults.append(f"{quote(text)} is not a whole number")

    try:
        return json.loads(
            data.decode(),
            object_pairs_hook=pairs,
            parse_int=number,
            parse_float=foreign,
            parse_constant=foreign,
        )
    except RecursionError:
        raise CertificateError(f"{name}: nested too deeply") from None
    except ValueError as error:
        raise CertificateError(f"{name}: not JSON, or truncated ({error})") from None


def _measure(document: Any, name: str) -> None:
    level = [document]
    for _ in range(DEEPEST):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise CertificateError(f"{name}: nested too deeply")


def _plain(value: Any, faults: list[str], depth: int) -> Any:
    """A copy made only of what JSON has; a mapping from Python may hold anything."""
    if depth == 0:
        raise CertificateError("certificate: nested too deeply")
    if isinstance(value, Mapping):
        named = {key: inner for key, inner in value.items() if isinstance(key, str)}
        if len(named) != len(value):
            faults.append("a key is not a string")
        return {key: _plain(inner, faults, depth - 1) for key, inner in named.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, faults, depth - 1) for inner in value]
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        if abs(value) < 10**LONGEST_NUMBER:
            return value
        faults.append("a number is out of all ranges")
    else:
        faults.append(f"a value of type {type(value).__name__} is not JSON, or not a whole number")
    return None
