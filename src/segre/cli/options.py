"""How the text of an option becomes a value."""

from __future__ import annotations

import re

from segre.errors import SegreError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def memory_bytes(text: str) -> int:
    """A memory limit such as 512M or 8G, in bytes.

    >>> memory_bytes("512M") == 512 * 2**20
    True
    """
    match = re.fullmatch(r"(\d{1,9})\s*([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise SegreError(
            f"--memory {text!r} is not allowed; allowed: a number with K, M, G or T, such as 8G"
        )
    return int(match[1]) * _UNITS[match[2].upper()]
