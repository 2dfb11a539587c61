"""The driver: what is left to do goes to workers, what comes back goes into the store.

Started again with the same plan, it continues where it stopped, however it stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

from segre.errors import SweepError
from segre.geometry.progress import Progress, quiet
from segre.shown import Shown, Tabular
from segre.sweep.builtin import plan_of
from segre.sweep.draw import Drawn, architectures, require_possible
from segre.sweep.local import cores, solve_locally
from segre.sweep.names import RESULTS, with_entries
from segre.sweep.plan import Plan
from segre.sweep.row import judged
from segre.sweep.status import Standing
from segre.sweep.store import RETRIED, Row, Store
from segre.sweep.task import FOUND, Result, Task, bytes_needed, failed, task_of

Solver = Callable[[Iterator[Task]], Iterator[Result]]
MEMORY = 2 << 30


@dataclass(frozen=True)
class Ran(Shown):
    """What one run did."""

    done: int  # now
    before: int  # by earlier runs
    total: int  # of the plan
    seconds: float
    timed_out: int = 0  # of those done now; a later run tries them again
    mended: str | None = None  # what was wrong with the store, and what became of it

    @property
    def left(self) -> int:
        """Number of architectures without a result."""
        return self.total - self.before - self.done + self.timed_out

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        rate = self.done / self.seconds if self.seconds else 0.0
        return {**vars(self), "rate": round(rate, 2)}


@dataclass(frozen=True)
class Swept(Tabular):
    """What one run did, and how the sweep stands after it."""

    ran: Ran
    standing: Standing

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"run": self.ran.document(), "status": self.standing.document()}


def run(
    plan: str | Path | Mapping[str, Any] | Plan,
    path: str | Path,
    *,
    workers: int | None = None,
    dask: str | None = None,
    limit: int | None = None,
    memory: int = MEMORY,
    timeout: float | None = None,
    progress: Progress = quiet,
) -> Ran:
    """Compute the remaining architectures of a plan, at most `limit` of them in this run.

    `workers` is the number of processes on this machine. `memory` is the limit for one task; on
    this machine it is at most a worker's share of the available memory. `timeout` is the time limit
    for one task in seconds; slower tasks are retried by a later run, after all others. `dask` is
    the address of the scheduler of a Dask cluster that does the work.

    >>> from tempfile import TemporaryDirectory
    >>> plan = {"kind": "softmax", "exhaustive": True, "claim": "dimension <= parameters",
    ...     "fields": {"layers": 1, "d": "2..3", "a": 1, "t": 2}}
    >>> with TemporaryDirectory() as folder:
    ...     ran = run(plan, f"{folder}/small.db", workers=1)
    >>> ran.done, ran.left
    (2, 0)
    """
    plan = plan_of(plan)
    if timeout is not None and not 0 < timeout < float("inf"):
        raise SweepError(f"timeout {timeout} is not allowed; allowed: seconds, more than 0")
    if workers is not None and workers < 1:
        raise SweepError(f"workers {workers} is not allowed; allowed: 1 or more")
    count = workers or cores()
    solver: Solver = partial(solve_locally, workers=count, timeout=timeout)
    share = min(memory, _physical() // count)
    if dask is not None:
        from segre.sweep.cluster import dask_library, solve_on_cluster

        dask_library()  # before there is a store
        solver, share = partial(solve_on_cluster, address=dask, timeout=timeout), memory
    return drive(plan, path, solver, limit=limit, share=share, progress=progress)


def drive(
    plan: Plan,
    path: str | Path,
    solver: Solver,
    *,
    limit: int | None = None,
    share: int = MEMORY,
    progress: Progress = quiet,
) -> Ran:
    """The same, with any solver of tasks that need at most a share of memory."""
    rehearse(plan)
    drawn: list[Drawn] = []
    for one in architectures(plan):
        drawn.append(one)
        if len(drawn) % 1000 == 0:
            progress("drawing", len(drawn), plan.draw or plan.candidates)
    with Store.create(path, plan) as store:
        store.forget(share)
        done, retried = store.digests(), store.digests(retried=True)
        waiting = [one for one in drawn if one.spec.digest not in done]
        waiting.sort(key=lambda one: one.spec.digest in retried)  # slow ones come after all others
        total, before = len(drawn), len(drawn) - len(waiting)  # the store may hold more
        finished = timed_out = 0
        began = monotonic()
        progress("sweeping", before, total)
        for row in rows_of(plan, waiting[:limit], solver, share):
            store.add([row])
            finished += 1
            timed_out += row.status == RETRIED
            progress("sweeping", before + finished, total)
        return Ran(finished, before, total, monotonic() - began, timed_out, store.mended)


def rehearse(plan: Plan) -> None:
    """Refuse empty families and claims without a truth value before there is a store."""
    require_possible(plan)
    some = list(islice(architectures(plan), min(3, plan.draw or 3)))
    if plan.claim is None:
        return
    problem = None
    for drawn in some:
        number = drawn.spec.parameters
        results = dict.fromkeys(RESULTS, number) | {"status": "proved", "redundancy": 1}
        try:
            plan.claim.holds({**with_entries(drawn.fields), **results})
        except SweepError as error:
            problem = error
        else:
            return
    raise SweepError(f"claim: {problem}")


def _physical() -> int:
    """The physical memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def rows_of(plan: Plan, waiting: list[Drawn], solver: Solver, share: int) -> Iterator[Row]:
    """The rows of waiting tasks, as they finish; tasks that do not fit are not started."""
    started: dict[str, tuple[Drawn, int]] = {}
    too_large: list[Row] = []

    def tasks() -> Iterator[Task]:
        for drawn in waiting:
            spec = drawn.spec
            needed = bytes_needed(spec, plan.compute)
            if needed > share:
                reason = f"would need about {needed:,} bytes of memory, over {share:,} for a worker"
                too_large.append(_row(plan, drawn, needed, failed(reason, "too-large")))
                continue
            started[spec.digest] = drawn, needed
            yield task_of(spec, plan.compute, plan.seed, share)

    for result in solver(tasks()):
        yield _row(plan, *started.pop(result["digest"]), result)
        while too_large:
            yield too_large.pop()
    yield from too_large


def _row(plan: Plan, drawn: Drawn, needed: int, result: Result) -> Row:
    spec = drawn.spec
    row = Row(
        digest=spec.digest,
        place=drawn.place,
        spec=str(spec),
        fields=drawn.fields,
        parameters=spec.parameters,
        claim=None,
        seed=plan.seed,
        bytes=needed,
        **{name: result[name] for name in FOUND},
    )
    return judged(row, plan.claim)
