"""Workers on other machines: a Dask cluster, which does again what dead workers were doing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from segre.errors import SweepError
from segre.sweep.task import Result, Task, failed, solve
from segre.values import quote

_AHEAD = 4  # tasks per thread of the cluster that are under way
_PATIENCE = 15  # seconds to find the scheduler


def solve_on_cluster(tasks: Iterator[Task], address: str) -> Iterator[Result]:
    """The results of all tasks, in the order in which they are done."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise SweepError(
            "--dask needs dask.distributed, which is not installed; pip install 'segre[cluster]'"
        ) from None
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SweepError(f"dask {quote(address)}: no scheduler answers ({reason})") from None
    with client:
        queue = as_completed()
        given: dict[Any, Task] = {}

        def fill() -> None:
            threads = sum(client.nthreads().values())
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
            error = future.exception()
            if error is None:
                yield future.result()
            else:
                reason = f"on the cluster: {type(error).__name__}: {error}"
                yield {"digest": task["digest"], **failed(reason, "died")}
            with suppress(Exception):
                future.release()


def solve_alone(task: Task) -> Result:
    """A task with one thread of linear algebra: a worker's threads are tasks already."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        return solve(task)
