"""How far a process has come, as the kernel tells: tests wait for that, and not for a time."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PATIENCE = 600.0  # a guard against hanging


def wait_until(process: "subprocess.Popen[str]", reached: Callable[[], bool]) -> None:
    """Wait for something that a process does; if the process ends before, that is a failure."""
    late = time.monotonic() + _PATIENCE
    while not reached():
        assert process.poll() is None, "the process was over before it could be interrupted"
        assert time.monotonic() < late, f"nothing happened in {_PATIENCE:.0f} s"
        time.sleep(0.002)


def computing(process: "subprocess.Popen[str]", seconds: float) -> Callable[[], bool]:
    """Whether segre listens to signals, and has used so much processor time since."""
    since: float | None = None

    def reached() -> bool:
        nonlocal since
        if since is None and listens(process.pid, signal.SIGTERM):
            since = used(process.pid)
        return since is not None and used(process.pid) >= since + seconds

    return reached


def listens(pid: int, sent: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    assert caught is not None
    return bool(int(caught[1], 16) >> (sent - 1) & 1)


def used(pid: int) -> float:
    """The seconds of processor time that a process has used."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, after_name[11:13])) / _TICKS
