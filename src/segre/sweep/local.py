"""Worker processes on this machine: they may die, and what they were doing is done again."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import segre
from segre.errors import StoppedRunError
from segre.sweep.task import Result, Task, failed, timed_out

_AHEAD = 3  # tasks that a worker has at a time, so that it never waits for the next
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
    """A process, and the tasks it was given and has not answered, in order."""

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
        self.tasks: deque[Task] = deque()
        self.ready = False  # it has loaded what it needs
        self._since = monotonic()  # when it began with the first of its tasks
        self._heard = b""

    def give(self, task: Task) -> None:
        """Hand over a task; if the worker is dead, that is noticed when it is listened to."""
        if not self.tasks:
            self._since = monotonic()
        self.tasks.append(task)
        with suppress(BrokenPipeError):
            self._in.write(json.dumps(task).encode() + b"\n")
            self._in.flush()

    def hear(self) -> list[Result] | None:
        """The results that have arrived; None if the worker is dead."""
        data = os.read(self.out.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._heard = (self._heard + data).split(b"\n")
        if lines:
            self.ready, self._since = True, monotonic()
        results = [json.loads(line) for line in lines if line]
        for _ in results:
            self.tasks.popleft()
        return results

    def seconds_left(self, timeout: float) -> float | None:
        """How long its task may still take; None if it has none, or is not at work yet."""
        return self._since + timeout - monotonic() if self.ready and self.tasks else None

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
    """Workers, the tasks that are under way, and those that no worker has."""

    def __init__(self, tasks: Iterator[Task], size: int, timeout: float | None) -> None:
        self._tasks, self._size, self._timeout = tasks, size, timeout
        self._open: dict[str, Task] = {}  # given to workers, and not answered
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
        while self._open:
            for key, _ in self._selector.select(self._patience()):
                found = key.data.hear()
                yield from self._first(self._bury(key.data) if found is None else found)
            yield from self._first(self._overdue())
            for worker in self._workers:
                self._fill(worker)

    def _first(self, found: Iterable[Result]) -> Iterator[Result]:
        """The first result of each task: what waited behind a slow one may have two."""
        return (result for result in found if self._open.pop(result["digest"], None))

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
        while len(worker.tasks) < _AHEAD and (task := self._next(worker)) is not None:
            self._open[task["digest"]] = task
            worker.give(task)

    def _next(self, worker: Worker) -> Task | None:
        """A task for a worker; one that waits behind another worker's, if there is no other."""
        while self._again:
            task = self._again.popleft()
            if task["digest"] in self._open:
                return task
        new = next(self._tasks, None)
        if new is not None or worker.tasks:
            return new
        begun = [other.tasks[0] for other in self._workers if other.tasks]
        waiting = (task for task in self._open.values() if task not in begun)
        return next(waiting, None)

    def _replace(self, worker: Worker) -> None:
        """End a worker; others take over its tasks."""
        self._selector.unregister(worker.out)
        worker.stop()
        self._again.extend(task for task in worker.tasks if task["digest"] in self._open)
        self._hire()

    def _bury(self, worker: Worker) -> list[Result]:
        """Replace a dead worker; its task is tried again, at most `DEATHS` times."""
        self._stillborn = 0 if worker.ready else self._stillborn + 1
        if self._stillborn == _STILLBORN:
            raise StoppedRunError(
                "sweep: worker processes die before their first task; segre doctor may show why"
            )
        found: list[Result] = []
        if worker.ready and worker.tasks:
            digest = worker.tasks[0]["digest"]
            self._deaths[digest] += 1
            if self._deaths[digest] == DEATHS:
                worker.tasks.popleft()
                reason = f"{DEATHS} worker processes died while computing it"
                found = [{"digest": digest, **failed(reason, "died")}]
        self._replace(worker)
        return found

    def _overdue(self) -> Iterator[Result]:
        """Tasks that take too long end with their workers."""
        for worker in self._workers if self._timeout is not None else ():
            left = worker.seconds_left(self._timeout or 0)
            if left is not None and left <= 0:
                late = worker.tasks.popleft()
                self._replace(worker)
                yield {"digest": late["digest"], **timed_out(self._timeout or 0)}
