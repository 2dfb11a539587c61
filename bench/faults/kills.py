"""Sweeps that are killed: whatever dies, and whenever, the table is that of an undisturbed run.

`kill -9` hits the driver, or workers, at random moments. Then the same command goes on. No row
that was written is lost, none is there twice, none is another one, and no worker outlives its
driver.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from bench.faults.stores import in_this_process, lasting
from bench.faults.tally import Tally
from segre.errors import SweepError
from segre.sweep.plan import Plan
from segre.sweep.run import drive

SWEEP = """
kind = ["softmax", "lightning"]
draw = 80
seed = 3
compute = ["closed-form", "exact"]
claim = "dimension == closed_form"
[fields]
layers = "1..3"
d = { each = "1..4" }
a = { each = [1, 2] }
t = "1..3"
"""
_PATIENCE = 60  # seconds for processes to end that must


class Killed:
    """A sweep in a folder, run by processes that are killed."""

    def __init__(self, folder: Path, rng: Random) -> None:
        self.rng = rng
        self.file, self.store = folder / "s.toml", folder / "s.db"
        self.file.write_text(SWEEP)
        drive(Plan.read(self.file), folder / "undisturbed.db", in_this_process)
        self.undisturbed = lasting(folder / "undisturbed.db")
        self.problems: list[str] = []

    def start(self) -> subprocess.Popen[bytes]:
        """The command, in a process of its own."""
        code = "from segre.cli import main; main()"
        command = [sys.executable, "-P", "-c", code, "sweep", "run", str(self.file)]
        return subprocess.Popen(
            [*command, "-o", str(self.store), "--workers", "2"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def rows(self) -> list[tuple[Any, ...]]:
        """What is in the store; nothing, if it was not begun."""
        if not self.store.exists():
            return []
        try:
            return lasting(self.store)
        except SweepError as error:
            if "nothing was begun" not in str(error):
                raise
            return []

    def wait_for_some(self, process: subprocess.Popen[bytes]) -> None:
        """Until a random number of rows is written, or none is written any more."""
        wanted = self.rng.randrange(len(self.undisturbed))
        while process.poll() is None and written(self.store) < wanted:
            time.sleep(0.02)

    def kill_the_driver(self) -> bool:
        """Start it and kill it; whether it was still running."""
        known = set(self.rows())
        process = self.start()
        self.wait_for_some(process)
        workers = children(process.pid)
        running = process.poll() is None
        process.kill()
        process.communicate()
        self.require(ended(workers), "a worker outlived its driver")
        found = self.rows()
        self.require(len(set(found)) == len(found), "a row is there twice")
        self.require(known <= set(found), "a row is lost")
        self.require(set(found) <= set(self.undisturbed), "a row is another one")
        if len(found) == len(self.undisturbed):  # begin again
            self.store.unlink()
        return running

    def kill_a_worker(self) -> bool:
        """Start it, kill one of its workers, and let it end."""
        self.store.unlink(missing_ok=True)
        process = self.start()
        self.wait_for_some(process)
        team = children(process.pid)
        for pid in self.rng.sample(team, min(len(team), self.rng.randint(1, 2))):
            os.kill(pid, signal.SIGKILL)
        self.end(process)
        return bool(team)

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Let a run end; then the table must be that of an undisturbed one."""
        _, said = process.communicate()
        self.require(process.returncode == 0, f"exit code {process.returncode}: {said.decode()}")
        self.require(self.rows() == self.undisturbed, "the table is another one")

    def require(self, true: bool, otherwise: str) -> None:
        """Note down what is wrong."""
        if not true:
            self.problems.append(otherwise)


def written(store: Path) -> int:
    """How many rows a store has at this moment, or none that can be seen."""
    if not store.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as db:
            (count,) = db.execute("SELECT COUNT(*) FROM results").fetchone()
            return int(count)
    except sqlite3.Error:
        return 0


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    try:
        return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def ended(processes: list[int]) -> bool:
    """Whether all of them come to an end."""
    until = time.monotonic() + _PATIENCE
    while any(Path(f"/proc/{pid}").exists() for pid in processes):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def tally(quick: bool) -> list[Tally]:
    """Kill what there is to kill, again and again."""
    kinds: dict[str, tuple[Callable[[Killed], bool], int]] = {
        "kill -9 of the driver": (Killed.kill_the_driver, 2 if quick else 50),
        "kill -9 of workers": (Killed.kill_a_worker, 1 if quick else 50),
    }
    found = []
    for fault, (kill, rounds) in kinds.items():
        with tempfile.TemporaryDirectory() as folder:
            sweep = Killed(Path(folder), Random(fault))
            killed = 0
            while killed < rounds:
                killed += kill(sweep)
            if sweep.rows() != sweep.undisturbed:
                sweep.end(sweep.start())
            note = "; ".join(sweep.problems[:3]) or "the table is that of an undisturbed run"
            found.append(Tally(fault, killed, len(sweep.problems), note))
    return found
