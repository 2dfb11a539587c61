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
        self.tasks: deque[Task] = deque()
        self.lent: set[str] = set()  # digests of tasks that were given to another worker as well
        self.ready = False  # it has loaded what it needs
        self.since = monotonic()  # when it began with the first of its tasks
        self._heard = b""

    @property
    def owed(self) -> list[Task]:
        """The tasks that it alone has."""
        return [task for task in self.tasks if task["digest"] not in self.lent]

    def give(self, task: Task) -> None:
        """Hand over a task; if the worker is dead, that is noticed when it is listened to."""
        if not self.tasks:
            self.since = monotonic()
        self.tasks.append(task)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(task).encode() + b"\n")
            self.process.stdin.flush()

    def hear(self) -> list[Result] | None:
        """The results that have arrived, of tasks that it alone has; None if it is dead."""
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._heard = (self._heard + data).split(b"\n")
        if lines:
            self.ready, self.since = True, monotonic()
        results = [json.loads(line) for line in lines if line]
        for _ in results:
            self.tasks.popleft()
        own = [result for result in results if result["digest"] not in self.lent]
        self.lent -= {result["digest"] for result in results}
        return own

    def seconds_left(self, timeout: float) -> float | None:
        """How long its task may still take; None if it has none, or is not at work yet."""
        return self.since + timeout - monotonic() if self.ready and self.tasks else None

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def solve_locally(
    tasks: Iterator[Task], workers: int, timeout: float | None = None
) -> Iterator[Result]:
    """The results of all tasks, in the order in which they are done."""
    with Team(tasks, workers, timeout) as team:
        yield from team.results()


class Team:
    """Workers, and the tasks that they have not been given yet."""

    def __init__(self, tasks: Iterator[Task], workers: int, timeout: float | None) -> None:
        self._tasks, self._size, self._timeout = tasks, workers, timeout
        self._again: deque[Task] = deque()
        self._deaths: Counter[str] = Counter()
        self._stillborn = 0
        self._workers: set[Worker] = set()
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        self._selector.close()

    def results(self) -> Iterator[Result]:
        """The results of all tasks, as the workers finish them."""
        for _ in range(self._size):
            self._hire()
        while any(worker.owed for worker in self._workers):
            for key, _ in self._selector.select(self._patience()):
                worker = key.data
                found = worker.hear()
                yield from found or ()
                if found is None:
                    yield from self._bury(worker)
                else:
                    self._fill(worker)
            yield from self._end_overdue()
            for worker in self._workers:  # what others left behind, or will not come to soon
                if not worker.tasks:
                    self._fill(worker)

    def _patience(self) -> float | None:
        """How long the first worker may still take."""
        if self._timeout is None:
            return None
        left = [worker.seconds_left(self._timeout) for worker in self._workers]
        return max(0.0, min((x for x in left if x is not None), default=1.0))

    def _hire(self) -> None:
        worker = Worker(blas_threads(self._size))
        self._workers.add(worker)
        assert worker.process.stdout is not None
        self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        self._fill(worker)

    def _replace(self, worker: Worker) -> None:
        """End a worker; others take over its tasks."""
        assert worker.process.stdout is not None
        self._selector.unregister(worker.process.stdout)
        self._workers.remove(worker)
        worker.stop()
        self._again.extend(worker.owed)
        self._hire()

    def _fill(self, worker: Worker) -> None:
        while len(worker.tasks) < _AHEAD and (task := self._next(worker)) is not None:
            worker.give(task)

    def _next(self, worker: Worker) -> Task | None:
        """A task for a worker; one that waits behind another worker's, if there is no other."""
        if self._again:
            return self._again.popleft()
        task = next(self._tasks, None)
        if task is not None or worker.tasks:
            return task
        for other in self._workers - {worker}:
            if waiting := [x for x in list(other.tasks)[1:] if x["digest"] not in other.lent]:
                other.lent.add(waiting[-1]["digest"])
                return waiting[-1]
        return None

    def _bury(self, worker: Worker) -> Iterator[Result]:
        """Replace a dead worker; its task is tried again, at most `DEATHS` times."""
        self._stillborn = 0 if worker.ready else self._stillborn + 1
        if self._stillborn == _STILLBORN:
            raise StoppedRunError(
                "sweep: worker processes die before their first task; segre doctor may show why"
            )
        if worker.ready and worker.tasks and worker.tasks[0] in worker.owed:
            digest = worker.tasks[0]["digest"]
            self._deaths[digest] += 1
            if self._deaths[digest] == DEATHS:
                worker.tasks.popleft()
                reason = f"{DEATHS} worker processes died while computing it"
                yield {"digest": digest, **failed(reason, "died")}
        self._replace(worker)

    def _end_overdue(self) -> Iterator[Result]:
        """Tasks that take too long end with their workers."""
        for worker in list(self._workers) if self._timeout is not None else ():
            left = worker.seconds_left(self._timeout or 0)
            if left is None or left > 0:
                continue
            own = worker.owed
            late = worker.tasks.popleft()
            if late in own:
                yield {"digest": late["digest"], **timed_out(self._timeout or 0)}
            self._replace(worker)
