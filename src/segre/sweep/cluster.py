"""Workers on other machines: a Dask cluster, which does again what dead workers were doing."""

from __future__ import annotations

import logging
import re
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from segre.errors import StoppedRunError, SweepError
from segre.libraries import library
from segre.sweep.local import Worker
from segre.sweep.task import Result, Task, failed, solve, timed_out
from segre.values import quote

_AHEAD = 4  # tasks per thread of the cluster that are under way
_PATIENCE = 15  # seconds to find the scheduler
_OFTEN = 1  # seconds between two looks at how many threads there are
LONELY = 10  # seconds without any worker, or without the scheduler, after which a run stops


def dask_library() -> Any:
    """Dask's module of clusters; refused in one line where it is not installed."""
    return library("distributed", "--dask", extra="cluster", error=SweepError)


def solve_on_cluster(
    tasks: Iterator[Task], address: str, timeout: float | None = None
) -> Iterator[Result]:
    """The results of all tasks, in the order in which they are done."""
    dask = dask_library()
    for name in ("distributed", "distributed.client", "asyncio"):  # what dies is done again
        logging.getLogger(name).setLevel(logging.CRITICAL)
    _require_listener(address)
    try:
        client = dask.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise SweepError(f"dask {quote(address)}: no scheduler responds ({_line(error)})") from None
    try:
        yield from _Cluster(client, address, timeout).results(tasks)
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.close(timeout=_OFTEN)


class _Cluster:
    """Tasks that are under way on a cluster, and the threads that it has for them."""

    def __init__(self, client: Any, address: str, timeout: float | None) -> None:
        self._client, self._address, self._timeout = client, address, timeout
        self._given: dict[Any, Task] = {}
        self._done: SimpleQueue[Any] = SimpleQueue()
        self._threads, self._asked = 0, float("-inf")
        self._manned = monotonic()  # when there was a worker

    def results(self, tasks: Iterator[Task]) -> Iterator[Result]:
        """The results, as long as the cluster has workers."""
        self._fill(tasks)
        while self._given:
            try:
                future = self._done.get(timeout=_OFTEN)
            except Empty:
                self._look()
                continue
            if future.status == "cancelled":  # nobody does that but a client without a scheduler
                raise self._lost()
            result = self._fetched(future)
            if result is not None:
                self._fill(tasks)
                yield result

    def _fetched(self, future: Any) -> Result | None:
        """A result; None if its worker died with it, so that another worker finds it again."""
        try:
            problem = future.exception(timeout=_OFTEN)
            found: Result = {} if problem is not None else future.result(timeout=_OFTEN)
        except TimeoutError:
            self._done.put(future)
            self._look()
            return None
        except Exception:  # whatever it is that a connection ends with
            raise self._lost() from None
        task = self._given.pop(future)
        with suppress(Exception):
            future.release()
        if problem is None:
            return found
        reason = f"on the cluster: {type(problem).__name__}: {problem}"
        return {"digest": task["digest"], **failed(reason, "died")}

    def _fill(self, tasks: Iterator[Task]) -> None:
        self._look()
        for task in islice(tasks, max(0, _AHEAD * max(1, self._threads) - len(self._given))):
            limit = () if self._timeout is None else (self._timeout,)
            call = solve_within if limit else solve_alone
            future = self._client.submit(call, task, *limit, pure=False, retries=2)
            self._given[future] = task
            future.add_done_callback(self._done.put)

    def _look(self) -> None:
        """Stop if the scheduler is lost, or if there has been no worker for a while."""
        if self._client.status != "running":
            raise self._lost()
        now = monotonic()
        if now - self._asked < _OFTEN:
            return
        try:
            self._threads, self._asked = sum(self._client.nthreads().values()), now
        except Exception:  # whatever it is that a connection ends with
            raise self._lost() from None
        if self._threads:
            self._manned = now
        elif now - self._manned > LONELY:
            raise StoppedRunError(
                f"dask {quote(self._address)}: no workers for {LONELY} s; start some with dask "
                f"worker {self._address}; finished work is kept, and the same command continues"
            )

    def _lost(self) -> StoppedRunError:
        return StoppedRunError(
            f"dask {quote(self._address)}: the connection to the scheduler is lost; finished work "
            "is kept, and the same command continues once a scheduler runs again"
        )


def _require_listener(address: str) -> None:
    """Refuse an address at which nothing listens; checked first, to give a plain error."""
    match = re.fullmatch(
        r"(?:(?:tcp|tls)://)?([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})", address
    )
    if match is None or not 0 < int(match[2]) < 1 << 16:
        raise SweepError(f"dask {quote(address)}: not an address; allowed: tcp://host:port")
    try:
        socket.create_connection((match[1].strip("[]"), int(match[2])), _PATIENCE).close()
    except OSError as error:
        raise SweepError(f"dask {quote(address)}: no response ({_line(error)})") from None


def _line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def solve_alone(task: Task) -> Result:
    """A task with one thread of linear algebra: a worker's threads are tasks already."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        return solve(task)


_thread = threading.local()


def solve_within(task: Task, timeout: float) -> Result:
    """A task with a time limit, in a process that is ended when the limit is exceeded.

    A thread of a Dask worker cannot be stopped, so each has a process of its own.
    """
    worker: Worker | None = getattr(_thread, "worker", None)
    if worker is None or worker.process.poll() is not None:
        worker = _thread.worker = Worker(1)
    worker.give(task)
    with selectors.DefaultSelector() as selector:
        selector.register(worker.out, selectors.EVENT_READ)
        while True:
            left = worker.seconds_left(timeout)
            if left is not None and left <= 0:
                worker.stop()
                return {"digest": task["digest"], **timed_out(timeout)}
            if not selector.select(left):
                continue
            results = worker.hear()
            if results is None:
                worker.stop()
                raise ChildProcessError("a worker process died")
            if results:
                return results[0]
