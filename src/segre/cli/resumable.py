"""Work that keeps what it has done in a file: an interruption says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from segre.errors import InterruptedRunError


@contextmanager
def resumable(file: Path, *, fresh: bool = False) -> Iterator[None]:
    """Inside, what is done is kept in `file`, from which the same command goes on.

    `fresh` is whether this command was told to start over; going on is then another command.
    """
    try:
        yield
    except KeyboardInterrupt:
        if not file.exists():  # there was nothing to keep yet
            raise
        command = "the same command without --fresh" if fresh else "the same command"
        raise InterruptedRunError(
            f"interrupted; what is done is in {str(file)!r}, {command} goes on from there"
        ) from None
