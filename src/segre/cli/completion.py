"""Values that the shell offers when the user asks for completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import get_args

Complete = Callable[[str], list[str]]


def one_of(
    names: Callable[[], Iterable[str]], *, several: bool = False, files: bool = False
) -> Complete:
    """The names that begin with what was typed; looked up only on request.

    Of `several`, separated by commas, the last is completed. With `files`, files and directories
    are offered beside a name that matches; if none does, nothing is offered, and the shell
    completes file names by itself.
    """

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if several else ("", "", incomplete)
        found = [before + comma + name for name in names() if name.startswith(last)]
        return [*found, *_files(incomplete)] if files and found else found

    return complete


def names(*places: str, several: bool = False) -> Complete:
    """The names in constants of segre, each given as `module:name`, that begin with what was typed.

    >>> names("segre.models:PRESETS")("gpt2-x")
    ['gpt2-xl']
    """
    return one_of(lambda: dict.fromkeys(_constants(places)), several=several)


def _constants(places: Iterable[str]) -> Iterator[str]:
    for place in places:
        module, _, name = place.partition(":")
        value = getattr(import_module(module), name)
        yield from get_args(value) or value


def _files(incomplete: str) -> Iterator[str]:
    """Specs, configs and directories that begin with what was typed, itself part of a name."""
    for path in sorted(Path().glob(f"{incomplete}*")):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield f"{path}/"
        elif path.suffix in (".toml", ".json"):
            yield str(path)


def _architectures() -> Iterator[str]:
    yield from _constants(["segre.models:PRESETS"])
    yield from (f"{kind}/" for kind in _constants(["segre.models:KINDS"]))


def _sweeps() -> Iterable[str]:
    from segre.sweep.builtin import builtin_names

    return builtin_names()


architecture = one_of(_architectures, files=True)  # presets, kinds of inline specs, and files
sweeps = one_of(_sweeps, files=True)  # those that come with segre, and files
variants = one_of(
    lambda: ["all", "paper", "what-if", *map(str, _constants(["segre.collapse.variants:ALL"]))],
    several=True,
)
questions = one_of(
    lambda: (name.replace(" ", "-") for name in _constants(["segre.discovery:QUESTIONS"]))
)
