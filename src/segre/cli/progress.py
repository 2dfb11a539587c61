"""A progress bar on standard error, for whatever takes longer than a moment."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_MOMENT = 1.0


@contextmanager
def progress_bar(
    quiet: bool = False, rate: bool = False
) -> Iterator[Callable[[str, int, int], None]]:
    """Gives a function of (stage, done, total); the bar appears after a second, on a terminal.

    With `rate` it says how many are done in a second, and how long the rest will take.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _stage, _done, _total: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from segre.report.console import progress_console

    pace = [TextColumn("{task.fields[rate]}"), TimeRemainingColumn()] if rate else []
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *pace,
        console=progress_console(),
        transient=True,
    )
    task = bar.add_task("", total=None, rate="")
    began = time.monotonic()

    def show(stage: str, done: int, total: int) -> None:
        if bar.tasks[0].description != stage:  # what was done before is not part of the rate
            bar.reset(task, completed=done)
        speed = bar.tasks[0].speed
        words = f"{speed:.3g}/s" if speed else ""
        bar.update(task, description=stage, completed=done, total=total, rate=words)
        if not bar.live.is_started and time.monotonic() - began > _MOMENT:
            bar.start()

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def waiting(what: str, quiet: bool = False) -> Iterator[None]:
    """A spinner for work that cannot say how far it is; it appears after a second as well."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from segre.report.console import progress_console

    spinner = progress_console().status(what)
    start = threading.Timer(_MOMENT, spinner.start)
    start.daemon = True
    start.start()
    try:
        yield
    finally:
        start.cancel()
        start.join()  # it is not just being started
        spinner.stop()
