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

import segre
from segre.errors import SweepError
from segre.sweep.task import Result, Task, failed

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
        self.ready = False  # it has loaded what it needs
        self._heard = b""

    def give(self, task: Task) -> None:
        """Hand over a task; if the worker is dead, that is noticed when it is listened to."""
        self.tasks.append(task)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(task).encode() + b"\n")
            self.process.stdin.flush()

    def hear(self) -> list[Result] | None:
        """The results that have arrived; None if the worker is dead."""
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._heard = (self._heard + data).split(b"\n")
        self.ready = self.ready or bool(lines)
        return [json.loads(line) for line in lines if line]

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def solve_locally(tasks: Iterator[Task], workers: int) -> Iterator[Result]:
    """The results of all tasks, in the order in which they are done."""
    again: deque[Task] = deque()
    deaths: Counter[str] = Counter()
    threads = blas_threads(workers)

    def upcoming() -> Iterator[Task]:
        while True:
            if again:
                yield again.popleft()
            elif (task := next(tasks, None)) is not None:
                yield task
            else:
                return

    def fill(worker: Worker) -> None:
        while len(worker.tasks) < _AHEAD and (task := next(upcoming(), None)) is not None:
            worker.give(task)

    team: set[Worker] = set()
    stillborn = 0
    with selectors.DefaultSelector() as selector:

        def hire() -> None:
            worker = Worker(threads)
            team.add(worker)
            assert worker.process.stdout is not None
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            fill(worker)

        try:
            for _ in range(workers):
                hire()
            while any(worker.tasks for worker in team):
                for key, _ in selector.select():
                    worker = key.data
                    results = worker.hear()
                    for result in results or ():
                        worker.tasks.popleft()
                        yield result
                    if results is not None:
                        fill(worker)
                        continue
                    selector.unregister(key.fileobj)
                    team.remove(worker)
                    worker.stop()
                    stillborn = 0 if worker.ready else stillborn + 1
                    if stillborn == _STILLBORN:
                        raise SweepError("sweep: worker processes die before their first task")
                    if worker.ready and worker.tasks:
                        digest = worker.tasks[0]["digest"]
                        deaths[digest] += 1
                        if deaths[digest] == DEATHS:
                            worker.tasks.popleft()
                            reason = f"{DEATHS} worker processes died of it"
                            yield {"digest": digest, **failed(reason, "died")}
                    again.extend(worker.tasks)
                    hire()
        finally:
            for worker in team:
                worker.stop()
