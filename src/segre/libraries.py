"""Optional libraries: imported when needed; if that fails, one line says what to install."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from segre.errors import SegreError, UnsupportedError, is_due_to


def library(
    name: str, purpose: str, *, extra: str = "", error: type[SegreError] = UnsupportedError
) -> Any:
    """A module of a library; if it is missing or broken, an error that says what to install.

    `purpose` is what needs it, `extra` the extra of segre that installs it.

    >>> library("json", "this example").loads("[1]")
    [1]
    >>> library("no_such_library", "this example", extra="models")
    Traceback (most recent call last):
    segre.errors.UnsupportedError: this example needs no_such_library, which is not ...
    """
    package = name.partition(".")[0]
    try:
        with _uninterrupted():
            import_module(package)
            return import_module(name)
    except Exception as problem:  # a broken library raises whatever it likes
        if is_due_to(problem, KeyboardInterrupt):
            raise
        if isinstance(problem, ModuleNotFoundError) and problem.name == package:
            said, advice = "is not installed", f"pip install {_installed_by(package, extra)}"
        else:
            reason = " ".join(f"{type(problem).__name__}: {problem}".split())[:200]
            said = f"cannot be imported ({reason})"
            advice = f"pip install --force-reinstall {package}"
        raise error(f"{purpose} needs {package}, which {said}; {advice}") from None


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the block ends: compiled libraries abort if it comes while they begin."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked:
        raise KeyboardInterrupt


def _installed_by(package: str, extra: str) -> str:
    return f"'segre[{extra}]'" if extra else package
