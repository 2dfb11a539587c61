"""Lists of specs, in which `-` stands for a list on standard input."""

from __future__ import annotations

import json
from typing import Any

from segre.files import is_standard_input, read_given
from segre.values import LONGEST_FILE


def listed(specs: list[str]) -> list[Any]:
    """The given specs; `-` stands for a list on standard input, one spec on each line.

    Lines are names, inline specs or JSON objects; lines that begin with # are skipped. Standard
    input may also be one spec in the format of a .toml or .json file.
    """
    return [one for spec in specs for one in (_lines() if is_standard_input(spec) else [spec])]


def _lines() -> list[Any]:
    """The lines of standard input; `-` itself if they are one document."""
    try:
        text = read_given("-", LONGEST_FILE).decode()
    except (OSError, ValueError):  # whoever reads the document says why
        return ["-"]
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines or (_is_object(lines[0]) and len(lines) == 1):
        return ["-"]
    if all(map(_is_object, lines)):
        return [json.loads(line) for line in lines]
    key, equals, _ = lines[0].partition("=")
    document = lines[0].startswith(("{", "[")) or (equals and "/" not in key)
    return ["-"] if document else list(lines)


def _is_object(line: str) -> bool:
    """Whether a line is a whole JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
