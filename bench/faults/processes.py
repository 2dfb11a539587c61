"""Commands as real processes: what is printed, the exit code, or the signal that killed it.

Processes are forked from one that has imported segre, so that thousands of them can be tried.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

_PATIENCE = 120  # seconds for a command to end


@dataclass(frozen=True)
class Ended:
    """How a command ended; the code of a process that a signal killed is negative."""

    code: int | None
    out: bytes
    said: str

    @property
    def problem(self) -> str | None:
        """What no ending may be: a crash, more than a line about a failure, a line in answers."""
        if self.code not in (0, 1, 2, 3):
            return f"exit code {self.code}: {self.said[-200:]}"
        if self.code == 2 and (self.said.count("\n") != 1 or not self.said.startswith("segre: ")):
            return f"not one line: {self.said[:200]}"
        if self.code == 2 and self.out:
            return "refused, and an answer is printed"
        if "Warning" in self.said or "Traceback" in self.said:
            return f"a warning: {self.said[:200]}"
        return None


class Running:
    """A command that runs."""

    def __init__(self, arguments: Sequence[object], folder: Path, *before: Callable[[], None]):
        self._streams = [Path(tempfile.mkstemp()[1]) for _ in range(2)]
        self.process: BaseProcess = _forks().Process(
            target=_command, args=([*map(str, arguments)], folder, self._streams, before)
        )
        self.process.start()

    def end(self) -> Ended:
        """Wait for it."""
        self.process.join(_PATIENCE)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        out, said = (file.read_bytes() for file in self._streams)
        for file in self._streams:
            file.unlink()
        return Ended(self.process.exitcode, out, said.decode(errors="replace"))


def ended(arguments: Sequence[object], folder: Path, *before: Callable[[], None]) -> Ended:
    """Run a command in a folder; functions of this module or another are called before it."""
    return Running(arguments, folder, *before).end()


@cache
def _forks() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.faults.preloaded"])
    return context


def _command(
    arguments: list[str], folder: Path, streams: list[Path], before: Sequence[Callable[[], None]]
) -> None:
    from segre.cli import main

    os.chdir(folder)
    for number, file in enumerate(streams, 1):
        handle = os.open(file, os.O_WRONLY)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.argv = ["segre", *arguments]
    for one in before:
        one()
    main()
