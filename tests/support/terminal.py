"""segre as a user runs it: a process in a terminal of a given width."""

import os
import subprocess
import sys
from pathlib import Path

import blocks
from support.warm import SEGRE, warm

__all__ = ["SEGRE", "environment", "printed", "run", "warm"]


def environment(columns: int = 100, **more: str) -> dict[str, str]:
    """Ours, without colours."""
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": str(columns), **more}


def run(
    *arguments: object, cwd: Path | None = None, columns: int = 100
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [str(warm()), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(columns),
    )


def printed(command: str, folder: Path) -> str:
    """What a line of the shell prints, as on a terminal of 80 columns without colours."""
    return blocks.printed(command, folder, [warm().parent, Path(sys.executable).parent])
