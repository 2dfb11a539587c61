"""How long computations report progress."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # stage, done, total


def quiet(_stage: str, _done: int, _total: int) -> None:
    """Report no progress."""
