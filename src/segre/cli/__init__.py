"""The command line: from arguments to calls to an exit code, without any mathematics."""

from __future__ import annotations

import signal
from typing import NoReturn

from segre.cli import ending


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
        ending.end(error)
    if code == ending.INTERRUPTED:  # the argument reader answers an interruption with this number
        ending.stop_for_interruption()
    ending.leave(code if isinstance(code, int) else 0)
