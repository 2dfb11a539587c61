"""A process that answers, and is stopped when an answer takes too long: the page never hangs.

Questions and answers are lines of JSON. `python -m segre.explore.worker` reads them, and ends as
soon as its input does, whatever it is doing, so that no process outlives the server.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from select import select
from threading import Lock
from typing import Any, NoReturn, TextIO

from segre.sweep.worker import listening


class Worker:
    """One process; it is started by the first question, and again after it was stopped."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._process: subprocess.Popen[str] | None = None
        self._turn = Lock()
        self._newest = 0
        self._closed = False

    def start(self) -> None:
        """Let the process import what it needs, before anything is asked."""
        with self._turn:
            self._running()

    def ask(self, question: str, text: str) -> dict[str, Any]:
        """The answer, or a sentence. Of questions that wait, only the newest is worked on."""
        self._newest += 1
        mine = self._newest
        with self._turn:
            if mine != self._newest:
                return {"error": "a newer request replaced this one", "superseded": True}
            return self._asked(question, text)

    def _asked(self, question: str, text: str) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        line = ""
        with suppress(OSError):  # the process has ended
            process.stdin.write(json.dumps([question, text]) + "\n")
            process.stdin.flush()
            if not select([process.stdout], [], [], self.seconds)[0]:
                self._stop()
                return {
                    "error": f"no answer within {self.seconds:g} seconds; make the design smaller, "
                    "or start segre explore with a larger --seconds"
                }
            line = process.stdout.readline()
        if line:
            answered: dict[str, Any] = json.loads(line)
            return answered
        self._stop()
        return {
            "error": "the computation ended without an answer, perhaps because memory ran out; "
            "make the design smaller"
        }

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            if self._closed:
                raise RuntimeError("the worker is closed")
            self._stop()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "segre.explore.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C is for the server, which stops this one itself
            )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError), process:  # which closes its streams and waits
                pass

    def close(self) -> None:
        """Stop the process, whatever it is doing."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
        with self._turn:
            self._stop()


def serve(written: TextIO) -> NoReturn:
    """Answer the questions on standard input."""
    from segre.explore.answers import answer
    from segre.json_data import strict_json

    lines = listening()
    while True:
        question, text = json.loads(lines.get())
        written.write(strict_json(answer(question, text)) + "\n")
        written.flush()


if __name__ == "__main__":
    serve(sys.stdout)
