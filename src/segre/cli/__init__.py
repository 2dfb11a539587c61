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

        app(standalone_mode=True)
    except SegreError as error:
        message = " ".join(str(error).split())
        print(f"segre: {message}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("segre: interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # the reader of our output has gone; keep the interpreter from complaining on its way out
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    sys.exit(0)
