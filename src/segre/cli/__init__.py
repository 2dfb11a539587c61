"""The command line: arguments to calls to an exit code; no mathematics here.

Exit codes: 0 answered, 1 the answer is "no" or "invalid", 2 bad input, 3 inconclusive.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from segre.errors import SegreError


def main() -> NoReturn:
    """Run the command line and exit; errors are one line, without a traceback."""
    try:
        from segre.cli.app import app

        code = app(standalone_mode=False)
    except SegreError as error:
        _stop(str(error), error.exit_code)
    except KeyboardInterrupt:
        _stop("interrupted; nothing was written", 130)
    except BrokenPipeError:
        # the reader of our output has gone; keep the interpreter from complaining on its way out
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        _stop_for_usage(error)
    sys.exit(code if isinstance(code, int) else 0)


def _stop_for_usage(error: Exception) -> NoReturn:
    """What the argument reader raises: a question for help, an interruption, or a bad argument."""
    import typer

    if isinstance(error, typer.Abort):
        _stop("interrupted; nothing was written", 130)
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
