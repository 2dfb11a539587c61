"""segre as a user starts it: a real process in a terminal of a given width."""

import os
import subprocess
import sys
from pathlib import Path

SEGRE = Path(sys.executable).parent / "segre"


def environment(columns: int = 100, **more: str) -> dict[str, str]:
    """Ours, without colours."""
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": str(columns), **more}


def run(
    *arguments: object, cwd: Path | None = None, columns: int = 100
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [str(SEGRE), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(columns),
    )
