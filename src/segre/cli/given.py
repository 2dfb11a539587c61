"""What a command is given: how a parameter is spelled, and what its value stands for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from segre.cli.completion import Complete
from segre.errors import SegreError

if TYPE_CHECKING:
    from segre.models import Source
    from segre.transformer.choices import Output

HEADS = ("logits", "softmax", "hidden")
REQUIRED = ...


@dataclass(frozen=True)
class Parameter:
    """What is given by its place, or by its name: `--name` if it is not `spelled` otherwise."""

    metavar: str  # nothing for a flag
    help: str
    spelled: str = ""
    kind: Any = str
    usual: Any = None  # the value where none is given; REQUIRED if there must be one
    several: bool = False
    complete: Complete | None = None
    min: float | None = None
    max: float | None = None
    read: Callable[[str], Any] | None = None  # what the value stands for
    by_place: bool = False

    def declared(self, name: str) -> Any:
        """As the argument reader has it."""
        said: dict[str, Any] = {"help": self.help, "autocompletion": self.complete}
        if self.by_place:
            return typer.Argument(metavar=self.metavar, **said)
        spelled: Any = self.spelled.split() or [f"--{name.replace('_', '-')}"]
        said |= {"metavar": self.metavar or None, "min": self.min, "max": self.max}
        return typer.Option(*spelled, **said)

    def annotation(self, default: Any) -> Any:
        """The type of its values."""
        kind = list[self.kind] if self.several else self.kind  # type: ignore[name-defined]
        return kind | None if default is None else kind

    def value(self, given: Any) -> Any:
        """What the given value stands for."""
        if self.several:
            return given or []
        return given if given is None or self.read is None else self.read(given)


def argument(metavar: str, help: str, kind: Any = str, **more: Any) -> Parameter:
    """What is given by its place."""
    return Parameter(metavar, help, "", kind, **{"usual": REQUIRED, "by_place": True, **more})


def flag(help: str, spelled: str = "", usual: bool | None = False) -> Parameter:
    """An option that is there or not."""
    return Parameter("", help, spelled, bool, usual)


def number(help: str, spelled: str = "", usual: Any = None, **more: Any) -> Parameter:
    """An option whose value is a whole number."""
    return Parameter("N", help, spelled, int, usual, **more)


def size(metavar: str, help: str, spelled: str = "", usual: Any = None, **more: Any) -> Parameter:
    """An option whose value is a number."""
    return Parameter(metavar, help, spelled, float, usual, **more)


def file(metavar: str, help: str, spelled: str = "", usual: Any = None) -> Parameter:
    """An option whose value names a file or a directory."""
    return Parameter(metavar, help, spelled, Path, usual)


def meant(spec: Source, defaults: bool) -> Source:
    """The given name itself, or its config filled in with defaults."""
    if not defaults:
        return spec
    from segre.models import architecture

    return architecture(spec, defaults=True)


def output_of(head: str) -> Output:
    """The output that a head has."""
    if head not in HEADS:
        raise SegreError(f"--head {head!r} is not allowed; allowed: {', '.join(HEADS)}")
    return cast("Output", head)


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
