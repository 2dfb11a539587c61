"""Names of version 0.2 that still work: for each, the name that it has now, said once."""

from __future__ import annotations

from typing import Any

from segre.cli.ending import say

_MOVED = {
    "model": "collapse cost demo diagnose move paths recover run trace",
    "variety": "ci critical degree point samples",
}
COMMANDS = {
    **{old: f"{group} {old}" for group, several in _MOVED.items() for old in several.split()},
    "certify-optimum": "model optimum",
    "models": "model list",
    "plot": "variety",
    "symmetries": "explain",
    "weights": "model",
    "weights same": "same",
}
OPTIONS = {
    "dim": {"--output": "--head"},
    "explain": {"--output": "--head"},
    "variety critical": {"--output": "--plot", "-o": "--plot"},
}


def current(args: list[str], context: Any) -> list[str]:
    """The words of a command under its present name; a hint is given if there is a new one.

    >>> from types import SimpleNamespace
    >>> current(["weights", "same", "A", "B"], SimpleNamespace(resilient_parsing=True))
    ['same', 'A', 'B']
    """
    for length in (2, 1):
        old = " ".join(args[:length])
        if now := COMMANDS.get(old):
            rest = args[length:]
            inner = rest[0] if now in _MOVED and rest and rest[0][0] != "-" else ""
            _hint(f"{old} {inner}".strip(), f"{now} {inner}".strip(), args, context)
            return [*now.split(), *rest]
    return args


def current_options(args: list[str], context: Any) -> list[str]:
    """The words after the name of a command, with options under their present names."""
    command = context.command_path.partition(" ")[2]
    renamed = list(args)
    for old, now in OPTIONS.get(command, {}).items():
        glued = f"{old}=" if old.startswith("--") else old  # as in --output=FILE and -oFILE
        for place, word in enumerate(args):
            if word == old or word.startswith(glued):
                value = word.removeprefix(old)
                renamed[place] = now + (f"={value.removeprefix('=')}" if value else "")
                _hint(f"{command} {old}", f"{command} {now}", args, context)
    return renamed


def _hint(old: str, now: str, args: list[str], context: Any) -> None:
    """One line on standard error; not for `--quiet`, nor for a shell that completes a word."""
    if not context.resilient_parsing and not {"-q", "--quiet"} & {*args}:
        say(f"segre {old} is now segre {now}")
