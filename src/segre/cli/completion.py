"""Values that the shell offers when the user asks for completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import get_args

Complete = Callable[[str], list[str]]


def one_of(names: Callable[[], Iterable[str]]) -> Complete:
    """The names that begin with what was typed; looked up only on request."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def several_of(names: Callable[[], Iterable[str]]) -> Complete:
    """The same for comma-separated names: the last one is completed."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [before + comma + name for name in names() if name.startswith(last)]

    return complete


def architecture(incomplete: str) -> list[str]:
    """Presets, kinds of inline specs, and files and directories.

    If no name matches, nothing is offered, and the shell completes file names by itself.
    """
    from segre.models import KINDS, PRESETS

    known = [*PRESETS, *(f"{kind}/" for kind in KINDS)]
    names = [name for name in known if name.startswith(incomplete)]
    return [*names, *_files(incomplete)] if names else []


def sweeps(incomplete: str) -> list[str]:
    """Sweeps that come with segre, and files."""
    from segre.sweep.builtin import builtin_names

    names = [name for name in builtin_names() if name.startswith(incomplete)]
    return [*names, *_files(incomplete)] if names else []


def _files(incomplete: str) -> Iterator[str]:
    """Specs, configs and directories that begin with what was typed, itself part of a name."""
    for path in sorted(Path().glob(f"{incomplete}*")):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield f"{path}/"
        elif path.suffix in (".toml", ".json"):
            yield str(path)


def names(*places: str, several: bool = False) -> Complete:
    """The names in constants of segre, each given as `module:name`, that begin with what was typed.

    >>> names("segre.models:PRESETS")("gpt2-x")
    ['gpt2-xl']
    """

    def found() -> Iterator[str]:
        for place in places:
            module, _, name = place.partition(":")
            value = getattr(import_module(module), name)
            yield from get_args(value) or value

    return (several_of if several else one_of)(lambda: dict.fromkeys(found()))


def variants(incomplete: str) -> list[str]:
    """Of `segre model collapse`; separated by commas."""
    from segre.collapse.variants import ALL

    return several_of(lambda: ["all", "paper", "what-if", *map(str, ALL)])(incomplete)


def questions() -> list[str]:
    """Of `segre model list --supports`."""
    from segre.discovery import QUESTIONS

    return [name.replace(" ", "-") for name in QUESTIONS]
