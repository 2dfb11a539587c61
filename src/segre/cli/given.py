"""What does a value on the command line stand for: a design, a head, bytes, numbers of tokens?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from segre.cli.options import HEADS
from segre.errors import SegreError

if TYPE_CHECKING:
    from segre.models import Source
    from segre.transformer.choices import Output


def meant(spec: Source, defaults: bool) -> Source:
    """The given name itself, or its config filled in with defaults."""
    if not defaults:
        return spec
    from segre.models import architecture

    return architecture(spec, defaults=True)


def output_of(head: str | None) -> Output | None:
    """The output that a head has."""
    if head is not None and head not in HEADS:
        raise SegreError(f"--head {head!r} is not allowed; allowed: {', '.join(HEADS)}")
    return cast("Output | None", head)


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


def token_counts(text: str) -> list[int]:
    """Numbers of tokens such as 4096 or 4k,32k; k is 1024.

    >>> token_counts("100,4k,1M")
    [100, 4096, 1048576]
    """
    out = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})([KM]?)", part.strip(), re.IGNORECASE | re.ASCII)
        if match is None:
            raise SegreError(
                f"--t {text!r} is not allowed; allowed: whole numbers, with k or M, such as 4k,32k"
            )
        out.append(int(match[1]) * _UNITS[match[2].upper()])
    return out
