"""The command line: from arguments to calls to an exit code, without any mathematics."""

from __future__ import annotations

import signal
from typing import NoReturn

from segre.cli import ending
from segre.errors import SegreError, is_due_to


def main() -> NoReturn:
    """Run the command line and exit; errors are one line, without a traceback."""
    ending.open_streams()
    try:
        # asked to end, it ends as after Ctrl-C: temporary files are removed, and a line says so
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        ending.watch_inputs()
        from segre.cli.app import app

        code = app(prog_name="segre", standalone_mode=False)
    except BaseException as error:
        _end(error)
    if code == ending.INTERRUPTED:  # the argument reader answers an interruption with this number
        ending.stop_for_interruption()
    ending.leave(code if isinstance(code, int) else 0)


def _end(error: BaseException) -> NoReturn:
    """Exit as the type of the error demands."""
    if isinstance(error, SystemExit):
        if is_due_to(error, BrokenPipeError):  # a library wants to leave because of it
            ending.leave_closed_pipe()
        if isinstance(error.code, str):  # a library's last words
            ending.stop(error.code, ending.FAILED)
        ending.leave(error.code or 0)
    resumable = isinstance(error, SegreError) and error.exit_code == ending.INTERRUPTED
    if is_due_to(error, KeyboardInterrupt) and not resumable:
        ending.stop_for_interruption()
    if isinstance(error, SegreError):
        ending.stop(str(error), error.exit_code)
    if isinstance(error, BrokenPipeError):
        ending.leave_closed_pipe()
    if isinstance(error, ending.OutputError):
        ending.stop_for_output(error)
    if isinstance(error, ModuleNotFoundError):
        ending.stop_for_module(error)
    if type(error).__name__ == "Abort":  # how older argument readers answer an interruption
        ending.stop_for_interruption()
    if isinstance(error, Exception) and hasattr(error, "format_message"):
        # only the errors of the argument reader have it
        ending.stop_for_usage(error, error.format_message())
    if isinstance(error, OSError):
        ending.stop_for_system(error)
    if isinstance(error, MemoryError):
        ending.stop_for_memory()
    ending.stop_for_fault(error)
