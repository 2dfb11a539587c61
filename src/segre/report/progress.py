"""A progress bar for anything that takes more than a second: on a terminal or in a notebook."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import Any

_MOMENT = 1.0
_OFTEN = 0.1  # seconds between two looks at a bar in a notebook
Show = Callable[[str, int, int], None]


@contextmanager
def progress_bar(quiet: bool = False, rate: bool = False) -> Iterator[Show]:
    """Yields a function of (stage, done, total), to be passed as `progress=`.

    The bar appears after a second: in a notebook below its cell, on a terminal on standard error,
    and nowhere else. It disappears at the end. With `quiet` there is none. With `rate` it shows how
    many are done per second and how long the rest will take.

    >>> import segre
    >>> with segre.progress_bar() as progress:
    ...     segre.dimension("softmax/d=4,4/a=2/t=3", progress=progress).value
    28
    """
    if quiet or not (in_notebook() or sys.stderr.isatty()):
        yield lambda _stage, _done, _total: None
        return
    with (_NotebookBar if in_notebook() else _terminal_bar)(rate) as show:
        yield show


# --- terminals --------------------------------------------------------------------------------


@contextmanager
def _terminal_bar(rate: bool) -> Iterator[Show]:
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
    """A spinner for work of unknown length; it also appears after a second."""
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


# --- notebooks --------------------------------------------------------------------------------


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class _NotebookBar:
    """An HTML bar that is updated in place; it needs IPython, but no widgets."""

    def __init__(self, rate: bool) -> None:
        self.rate = rate
        self.began = self.drawn = time.monotonic()
        self.stage, self.first, self.since = "", 0, self.began  # of this stage: the beginning
        self.handle: Any = None

    def show(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage != self.stage:
            self.stage, self.first, self.since = stage, done, now
        if now - self.began < _MOMENT or (self.handle and now - self.drawn < _OFTEN):
            return
        self.drawn = now
        self._display(_html(stage, done, total, now - self.began, self._pace(done, total, now)))

    def _pace(self, done: int, total: int, now: float) -> str:
        """The rate per second, and the remaining time."""
        if not self.rate or done <= self.first or now <= self.since:
            return ""
        speed = (done - self.first) / (now - self.since)
        return f", {speed:.3g}/s, {_clock((total - done) / speed)} left"

    def _display(self, html: str) -> None:
        ipython: Any = import_module("IPython.display")
        if self.handle is None:
            self.handle = ipython.display(ipython.HTML(html), display_id=True)
        else:
            self.handle.update(ipython.HTML(html))

    def __enter__(self) -> Show:
        return self.show

    def __exit__(self, *_error: object) -> None:
        if self.handle is not None:
            self._display("")


def _html(stage: str, done: int, total: int, seconds: float, pace: str) -> str:
    share = "" if total <= 0 else f' value="{min(done, total)}" max="{total}"'
    count = "" if total <= 0 else f" {done:,}/{total:,}"
    words = f"{escape(stage)} <progress{share}></progress>{count}, {_clock(seconds)}{pace}"
    return f'<div style="font: 13px system-ui, sans-serif">{words}</div>'


def _clock(seconds: float) -> str:
    """Minutes and seconds.

    >>> _clock(5), _clock(3661)
    ('0:05', '61:01')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
