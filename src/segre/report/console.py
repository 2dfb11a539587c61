"""The console that reports are printed to: text as it is, without markup or guessed colours."""

from __future__ import annotations

import os
import re

from rich.console import Console


def plain_console(width: int | None = None) -> Console:
    """A console on standard output; as wide as the terminal unless said otherwise."""
    return Console(highlight=False, markup=False, width=width, _environ=_environment())


def progress_console() -> Console:
    """A console on standard error, for what is shown while one waits."""
    return Console(stderr=True, _environ=_environment())


def _environment() -> dict[str, str]:
    """Ours, without sizes that no screen has: on no columns the library prints nothing at all."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in {"COLUMNS", "LINES"} or re.fullmatch(r"0*[1-9][0-9]{0,5}", value)
    }
