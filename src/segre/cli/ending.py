"""How does a command end? Every failure is one line on standard error and an exit code.

0 answered, 1 the answer is "no" or "invalid", 2 bad input, 3 inconclusive, 70 segre failed or
could not write its answer, 130 interrupted. No failure may end with the code of an answer.
"""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn, TextIO

from segre.errors import SegreError, is_due_to

INTERRUPTED = 130
FAILED = 70  # EX_SOFTWARE of sysexits.h
DEBUG = "SEGRE_DEBUG"
_kept: list[Any] = []  # the handler of bus errors, which must not be collected


class OutputError(OSError):
    """Standard output cannot be written to."""


@contextmanager
def _of_output() -> Iterator[None]:
    """Tell write errors of standard output from those of other files."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.errno, error.strerror) from error


class _Output(io.TextIOWrapper):
    """Standard output whose write errors can be told from those of other files."""

    def write(self, text: str) -> int:
        with _of_output():
            return super().write(text)

    def flush(self) -> None:
        with _of_output():
            super().flush()


def open_streams() -> None:
    """Replace standard streams that are closed, before other files take their descriptors.

    Writing to a closed output and reading from a closed input fail when they are tried. Messages to
    a closed standard error are lost.
    """
    for number, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdout is None:
        sys.stdout = _Output(open(1, "wb", closefd=False), "utf-8", "backslashreplace")  # noqa: SIM115
    elif isinstance(plain := sys.stdout, io.TextIOWrapper):
        sys.stdout = _Output(
            plain.buffer,
            plain.encoding,
            "backslashreplace",  # names of files need not be text, nor the terminal know ours
            line_buffering=plain.line_buffering,
            write_through=plain.write_through,
        )
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def watch_inputs() -> None:
    """Answer nothing from a model whose files change as they are read.

    A mapped file that is cut short is a bus error: of those, too, a line is said.
    """
    from segre.files import CHANGED, before_writing, discard, under_way

    def require_unchanged() -> None:
        store = sys.modules.get("segre.checkpoint.store")
        for one in {*store.OPEN} if store else ():
            one.require_unchanged()

    def cut_short(_: int) -> None:
        for path in {*under_way}:
            discard(path)
        said = f"an input: {CHANGED}"
        try:
            require_unchanged()
        except Exception as error:
            said = str(error)
        os.write(2, f"segre: {said}\n".encode(errors="backslashreplace"))
        os._exit(2)  # what read the file would read it again

    before_writing[:] = [require_unchanged]
    with suppress(ImportError, OSError, AttributeError):  # where the system has no such thing
        import ctypes

        _kept[:] = [ctypes.CFUNCTYPE(None, ctypes.c_int)(cut_short)]
        ctypes.CDLL(None).signal(signal.SIGBUS, _kept[0])


def end(error: BaseException) -> NoReturn:
    """Exit as the type of the error demands."""
    if isinstance(error, SystemExit):
        if is_due_to(error, BrokenPipeError):  # a library wants to leave because of it
            _leave_closed_pipe()
        if isinstance(error.code, str):  # a library's last words
            stop(error.code, FAILED)
        leave(error.code or 0)
    resumable = isinstance(error, SegreError) and error.exit_code == INTERRUPTED
    if is_due_to(error, KeyboardInterrupt) and not resumable:
        stop_for_interruption()
    if isinstance(error, BrokenPipeError):
        _leave_closed_pipe()
    name, context = type(error).__name__, getattr(error, "ctx", None)
    if name == "Abort":  # how older argument readers answer an interruption
        stop_for_interruption()
    if name == "NoArgsIsHelpError" and context is not None:
        try:
            print(context.get_help())
        except OSError as failure:
            end(failure)
        leave(2)
    if isinstance(error, OutputError):
        _discard(sys.stdout)
    stop(*_said_of(error))


def stop_for_interruption() -> NoReturn:
    """Files are written completely or not at all: say which of the two happened."""
    from segre.files import placed

    names = ", ".join(dict.fromkeys(map(str, placed)))
    kept = f"written before that: {names}" if names else "nothing was written"
    stop(f"interrupted; {kept}", INTERRUPTED)


def stop(message: str, code: int) -> NoReturn:
    """End with one line on standard error."""
    say(f"segre: {one_line(message)}")
    leave(code)


def leave(code: int) -> NoReturn:
    """End with a code, once all of the answer is written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        end(error)
    sys.exit(code)


def say(line: str) -> None:
    """Print a line on standard error, if anything can be written there."""
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        _discard(sys.stderr)


def one_line(message: str) -> str:
    """A message on one line; of what is long, such as an argument, only both ends are repeated.

    >>> len(one_line("x" * 10**5)), len(one_line("x " * 10**5))
    (403, 3003)
    """
    for half, pattern in ((200, r"\S{401,}"), (1500, r"(?s).{3001,}")):
        message = " ".join(re.sub(pattern, partial(_ends, half), message).split())
    return message


def _ends(half: int, found: re.Match[str]) -> str:
    return f"{found[0][:half]}...{found[0][-half:]}"


def _said_of(error: BaseException) -> tuple[str, int]:
    """What a failure is answered with: one line, and the code with which segre ends."""
    if isinstance(error, SegreError):
        return str(error), error.exit_code
    if isinstance(error, OutputError):  # nobody may mistake a part of the answer for the whole
        reason = error.strerror or str(error)
        return f"cannot write to standard output: {reason}; the answer is incomplete", FAILED
    if isinstance(error, ModuleNotFoundError) and (error.name or "segre").split(".")[0] != "segre":
        advice = "run segre doctor to see what is missing and how to install it"
        if error.name == "typer":  # then there is no command line to ask
            advice = "install it with pip, or reinstall segre"
        return f"the package {error.name!r} is not installed; {advice}", 2
    if isinstance(error, Exception) and hasattr(error, "format_message"):
        return _usage(error, error.format_message()), 2
    if isinstance(error, MemoryError):
        return (
            "out of memory; for commands with --memory, a smaller limit makes segre refuse before "
            "it starts",
            FAILED,
        )
    return _unexpected(error)


def _unexpected(error: BaseException) -> tuple[str, int]:
    """What the operating system reports, or a bug: name it, and ask for a report."""
    shown = bool(os.environ.get(DEBUG))
    if shown:
        _show(error)
    if isinstance(error, OSError):  # one about a file that was named, or a full disk, is bad input
        name = "" if error.filename is None else f" {str(error.filename)!r}:"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        said = f"operating system error:{name} {error.strerror or error}"
        return said, 2 if name or full else FAILED
    said = " ".join(str(error).split())
    what = type(error).__name__ + (f": {said[:200]}" if said else "")
    advice = (
        "the traceback above" if shown else f"the traceback that {DEBUG}=1 in the environment shows"
    )
    return (
        f"unexpected {what}; this is a bug in segre, not an answer: please report it with the "
        f"command and {advice}",
        FAILED,
    )


def _usage(error: Exception, said: str) -> str:
    """What the argument reader says, and what to do about it; only its errors have a context."""
    context = getattr(error, "ctx", None)
    command = "segre" if context is None else context.command_path
    advice = f"try {command} --help"
    if context is not None and type(error).__name__ == "MissingParameter":
        from segre.cli.tree import arguments

        advice = f"usage: {' '.join([command, *arguments(context.command, context)])}; {advice}"
    if context is not None and context.parent is None and hasattr(error, "option_name"):
        said = f"No such option before a command: {error.option_name}."
        advice = "the options of a command come after it, as in segre dim gpt2 --json"
    return f"{said} ({advice})"


def _leave_closed_pipe() -> NoReturn:
    """The reader of a pipe, such as `head`, has closed it."""
    _discard(sys.stdout)
    sys.exit(0)


def _show(error: BaseException) -> None:
    try:
        traceback.print_exception(error)
    except (OSError, ValueError):
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    """Discard output that is still buffered: Python would complain again when it exits."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # no stream of the system's
        pass
