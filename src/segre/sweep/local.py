"""Worker processes on this machine: they may die, and what they were doing is done again."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import segre
from segre.errors import StoppedRunError
from segre.sweep.task import Result, Task, failed, timed_out

DEATHS = 5  # workers that one task may take with it
_STILLBORN = 10  # workers in a row that never got as far as a task
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blas_threads(workers: int) -> int:
    """Threads of linear algebra per worker: all together no more than there are cores."""
    return max(1, cores() // workers)


class Worker:
    """A process, and the task that it is working on."""

    def __init__(self, threads: int) -> None:
        home = str(Path(segre.__file__).parents[1])
        path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "segre.sweep.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, **dict.fromkeys(THREADS, str(threads))},
            process_group=0,  # Ctrl-C is for the driver
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self.out = self.process.stdin, self.process.stdout
        self.task: Task | None = None
        self.ready = False  # it has loaded what it needs
        self._since = monotonic()  # when it began with its task
        self._heard = b""

    def give(self, task: Task) -> None:
        """Hand over a task; if the worker is dead, that is noticed when it is listened to."""
        self.task, self._since = task, monotonic()
        with suppress(BrokenPipeError):
            self._in.write(json.dumps(task).encode() + b"\n")
            self._in.flush()

    def hear(self) -> list[Result] | None:
        """The result, if it has arrived; None if the worker is dead."""
        data = os.read(self.out.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._heard = (self._heard + data).split(b"\n")
        if lines:
            self.ready, self._since = True, monotonic()
        results = [json.loads(line) for line in lines if line]
        if results:
            self.task = None
        return results

    def seconds_left(self, timeout: float) -> float | None:
        """How long its task may still take; None if it has none, or is not at work yet."""
        return self._since + timeout - monotonic() if self.ready and self.task else None

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        for pipe in (self._in, self.out):
            with suppress(BrokenPipeError):
                pipe.close()


def solve_locally(
    tasks: Iterator[Task], workers: int, timeout: float | None = None
) -> Iterator[Result]:
    """The results of all tasks, in the order in which they are done."""
    team = _Team(tasks, workers, timeout)
    try:
        yield from team.results()
    finally:
        team.stop()


class _Team:
    """Workers, and the tasks that none of them has."""

    def __init__(self, tasks: Iterator[Task], size: int, timeout: float | None) -> None:
        self._tasks, self._size, self._timeout = tasks, size, timeout
        self._again: deque[Task] = deque()
        self._deaths: Counter[str] = Counter()
        self._stillborn = 0
        self._selector = selectors.DefaultSelector()

    @property
    def _workers(self) -> list[Worker]:
        return [key.data for key in self._selector.get_map().values()]

    def stop(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.stop()
        self._selector.close()

    def results(self) -> Iterator[Result]:
        """The results of all tasks, as the workers finish them."""
        for _ in range(self._size):
            self._hire()
        while any(worker.task for worker in self._workers):
            for key, _ in self._selector.select(self._patience()):
                worker = key.data
                found = worker.hear()
                if found is None:
                    found = self._bury(worker)
                elif worker.task is None:
                    self._fill(worker)
                yield from found
            yield from self._end_overdue()

    def _end_overdue(self) -> Iterator[Result]:
        """Tasks that take too long end with their workers."""
        for worker in self._workers if self._timeout is not None else ():
            left, task = worker.seconds_left(self._timeout or 0), worker.task
            if task is not None and left is not None and left <= 0:
                self._replace(worker)
                yield {"digest": task["digest"], **timed_out(self._timeout or 0)}

    def _patience(self) -> float | None:
        """How long the first worker may still take."""
        if self._timeout is None:
            return None
        left = [worker.seconds_left(self._timeout) for worker in self._workers]
        return max(0.0, min((x for x in left if x is not None), default=1.0))

    def _hire(self) -> None:
        worker = Worker(blas_threads(self._size))
        self._selector.register(worker.out, selectors.EVENT_READ, worker)
        self._fill(worker)

    def _fill(self, worker: Worker) -> None:
        task = self._again.popleft() if self._again else next(self._tasks, None)
        if task is not None:
            worker.give(task)

    def _replace(self, worker: Worker) -> None:
        self._selector.unregister(worker.out)
        worker.stop()
        self._hire()

    def _bury(self, worker: Worker) -> list[Result]:
        """Replace a dead worker; its task is tried again, at most `DEATHS` times."""
        found, task = list[Result](), worker.task
        self._stillborn = 0 if worker.ready else self._stillborn + 1
        if self._stillborn == _STILLBORN:
            raise StoppedRunError(
                "sweep: worker processes die before their first task; segre doctor may show why"
            )
        if task is not None:
            self._deaths[task["digest"]] += worker.ready
            if self._deaths[task["digest"]] < DEATHS:
                self._again.append(task)
            else:
                reason = f"{DEATHS} worker processes died while computing it"
                found = [{"digest": task["digest"], **failed(reason, "died")}]
        self._replace(worker)
        return found
