"""Options shared by several commands, and how their values are read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from segre.cli import completion
from segre.errors import SegreError

if TYPE_CHECKING:
    from segre.models import Source

_SPEC_HELP = (
    "An inline spec such as softmax/d=4,4,4/a=2/t=3 or llama/d=4/heads=2/kv=1/head=2/ff=5/t=3, "
    "a .toml or .json file, a config.json or a directory with one, a name such as llama-3-8b, or "
    "the id of a model in the local Hugging Face cache."
)
Spec = Annotated[
    str,
    typer.Argument(metavar="SPEC", help=_SPEC_HELP, autocompletion=completion.architecture),
]
PolynomialSpec = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="A polynomial network such as poly/4-2-1/degree=2 or cnn/k=3,2/degree=2, or a .toml "
        "or .json file.",
        autocompletion=completion.architecture,
    ),
]
StackSpec = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="A stack of attention layers such as softmax/d=8,8/a=4/t=3, or a .toml or .json file.",
        autocompletion=completion.architecture,
    ),
]
Specs = Annotated[
    list[str],
    typer.Argument(metavar="SPEC", help=_SPEC_HELP, autocompletion=completion.architecture),
]
Seed = Annotated[int, typer.Option(help="Random seed, named in the results.", min=0)]
Defaults = Annotated[
    bool,
    typer.Option(
        "--defaults",
        help="Fill in values that a config leaves out with the defaults of the library's config "
        "class.",
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        metavar="SIZE", help="Memory limit; if more is needed, segre says how much and stops."
    ),
]


def meant(spec: Source, defaults: bool) -> Source:
    """The given name itself, or its config filled in with defaults."""
    if not defaults:
        return spec
    from segre.models import architecture

    return architecture(spec, defaults=True)


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
