"""The command line: arguments to calls to an exit code; no mathematics here.

Exit codes: 0 answered, 1 the answer is "no" or "invalid", 2 bad input, 3 inconclusive,
130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from segre.errors import SegreError, is_due_to

INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line and exit; errors are one line, without a traceback."""
    try:
        # asked to end, it ends as after Ctrl-C: temporary files are removed, and a line says so
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        from segre.cli.app import app

        code = app(prog_name="segre", standalone_mode=False)
    except SegreError as error:
        if is_due_to(error, KeyboardInterrupt) and error.exit_code != INTERRUPTED:
            _stop_for_interruption()
        _stop(str(error), error.exit_code)
    except KeyboardInterrupt:
        _stop_for_interruption()
    except SystemExit as leaving:
        if is_due_to(leaving, BrokenPipeError):  # a library wants to leave because of it
            _leave_closed_pipe()
        raise
    except BrokenPipeError:
        _leave_closed_pipe()
    except Exception as error:
        if is_due_to(error, KeyboardInterrupt):
            _stop_for_interruption()
        if isinstance(error, ModuleNotFoundError):
            _stop_for_module(error)
        _stop_for_usage(error)
    if code == INTERRUPTED:  # the argument reader answers an interruption with this number
        _stop_for_interruption()
    sys.exit(code if isinstance(code, int) else 0)


def _leave_closed_pipe() -> NoReturn:
    """The reader, such as `head`, has what it wanted; keep the interpreter from complaining."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def _stop_for_interruption() -> NoReturn:
    """Files are written whole or not at all: say which it was."""
    from segre.files import placed

    names = ", ".join(dict.fromkeys(map(str, placed)))
    kept = f"written before that: {names}" if names else "nothing was written"
    _stop(f"interrupted; {kept}", INTERRUPTED)


def _stop_for_module(error: ModuleNotFoundError) -> NoReturn:
    """A package that segre needs is not there: an installation to mend, not a mistake in segre."""
    if error.name is None or error.name.partition(".")[0] == "segre":
        raise error
    advice = "segre doctor says what is missing, and how to get it"
    if error.name == "typer":  # then there is no command line to ask
        advice = "install it, or all of segre again, with pip"
    _stop(f"the package {error.name!r} cannot be found; {advice}", 2)


def _stop_for_usage(error: Exception) -> NoReturn:
    """What the argument reader raises: a question for help, an interruption, or a bad argument."""
    if type(error).__name__ == "Abort":  # how older argument readers answer an interruption
        _stop_for_interruption()
    said = getattr(error, "format_message", None)  # only the argument reader's errors have it
    if said is None:
        raise error
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        print(context.get_help())
        sys.exit(2)
    command = "segre" if context is None else context.command_path
    _stop(f"{said()} (try {command} --help)", 2)


def _stop(message: str, code: int) -> NoReturn:
    print(f"segre: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
