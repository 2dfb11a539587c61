"""The options that commands share, and how their text becomes a value."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from segre.cli import completion
from segre.errors import SegreError

_SPEC_HELP = (
    "An inline spec such as softmax/d=4,4,4/a=2/t=3 or llama/d=4/heads=2/kv=1/head=2/ff=5/t=3, "
    "a .toml or .json file, a config.json or a directory with one, or a name such as llama-3-8b."
)
Spec = Annotated[
    str,
    typer.Argument(metavar="SPEC", help=_SPEC_HELP, autocompletion=completion.architecture),
]
Specs = Annotated[
    list[str],
    typer.Argument(metavar="SPEC", help=_SPEC_HELP, autocompletion=completion.architecture),
]
Seed = Annotated[int, typer.Option(help="Seed of what is random; results name it.", min=0)]
Memory = Annotated[
    str, typer.Option(help="Memory limit; past it segre says what it would need and stops.")
]

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
