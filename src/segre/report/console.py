"""The console that reports are printed to: text as it is, without markup or guessed colours."""

from __future__ import annotations

from rich.console import Console


def plain_console(width: int | None = None) -> Console:
    """A console on standard output; as wide as the terminal unless said otherwise."""
    return Console(highlight=False, markup=False, width=width)
