"""Workers on other machines: a Dask cluster, which does again what dead workers were doing."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from time import monotonic
from typing import Any

from segre.errors import SweepError
from segre.sweep.task import Result, Task, failed, solve
from segre.values import quote

_AHEAD = 4  # tasks per thread of the cluster that are under way
_PATIENCE = 15  # seconds to find the scheduler
_OFTEN = 1  # seconds between two looks at how many threads there are


def solve_on_cluster(tasks: Iterator[Task], address: str) -> Iterator[Result]:
    """The results of all tasks, in the order in which they are done."""
    try:
        dask: Any = import_module("distributed")
    except ImportError:
        raise SweepError(
            "--dask needs dask.distributed, which is not installed; pip install 'segre[cluster]'"
        ) from None
    for name in ("distributed", "distributed.client"):  # what dies is done again: nothing to say
        logging.getLogger(name).setLevel(logging.CRITICAL)
    _require_listener(address)
    try:
        client = dask.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise SweepError(f"dask {quote(address)}: no scheduler answers ({_line(error)})") from None
    with client:
        queue = dask.as_completed(loop=client.loop)
        given: dict[Any, Task] = {}

        threads, asked = 1, float("-inf")

        def fill() -> None:
            nonlocal threads, asked
            if monotonic() - asked > _OFTEN:  # workers come and go
                threads, asked = sum(client.nthreads().values()), monotonic()
            while len(given) < _AHEAD * max(1, threads):
                task = next(tasks, None)
                if task is None:
                    return
                future = client.submit(solve_alone, task, pure=False, retries=2)
                given[future] = task
                queue.add(future)

        fill()
        while given:
            future = next(queue)
            task = given.pop(future)
            fill()
            problem = future.exception()
            if problem is None:
                yield future.result()
            else:
                reason = f"on the cluster: {type(problem).__name__}: {problem}"
                yield {"digest": task["digest"], **failed(reason, "died")}
            with suppress(Exception):
                future.release()


def _require_listener(address: str) -> None:
    """Something listens at the address; asked plainly, since the answer is a plain error."""
    match = re.fullmatch(
        r"(?:(?:tcp|tls)://)?([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})", address
    )
    if match is None or not 0 < int(match[2]) < 1 << 16:
        raise SweepError(f"dask {quote(address)}: not an address; allowed: tcp://host:port")
    try:
        socket.create_connection((match[1].strip("[]"), int(match[2])), _PATIENCE).close()
    except OSError as error:
        raise SweepError(f"dask {quote(address)}: nobody answers ({_line(error)})") from None


def _line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def solve_alone(task: Task) -> Result:
    """A task with one thread of linear algebra: a worker's threads are tasks already."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        return solve(task)
