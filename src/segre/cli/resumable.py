"""Work whose state is kept in a file, from which an interrupted run continues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from segre.errors import InterruptedRunError


@contextmanager
def resumable(file: Path, *, fresh: bool = False) -> Iterator[None]:
    """Finished work is kept in `file`, from which the same command continues after an interruption.

    `fresh` says that this command was told to start over: continuing then takes another command.
    """
    try:
        yield
    except KeyboardInterrupt:
        if not file.exists():  # there was nothing to keep yet
            raise
        command = "the same command without --fresh" if fresh else "the same command"
        raise InterruptedRunError(
            f"interrupted; finished work is kept in {str(file)!r}; to continue, run {command}"
        ) from None
