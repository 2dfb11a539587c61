"""Architectures per second in a sweep of random small ones, and whether all agree.

segre solves each architecture exactly without the closed form, which is then compared. The sweep
runs on one worker process and on two, with one BLAS thread each. The peer is a float64 rank
(`method="estimate"`) of the first architectures of the same sweep.

Then `segre sweep run` on the deep softmax conjecture, on one worker and on two: drawing, starting
the workers and writing every row to the store are counted.
"""

from __future__ import annotations

import multiprocessing
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.pool import Pool
from multiprocessing.synchronize import Barrier
from pathlib import Path
from time import perf_counter
from typing import Literal, NamedTuple

from bench.harness import Report, arguments, blas_threads
from segre import Network, closed_form, dimension
from segre.sweep.builtin import plan_of
from segre.sweep.plan import Plan
from segre.sweep.run import run as run_sweep
from segre.sweep.store import Store

TARGET = 200  # architectures per second on one worker
SCALING = 1.8  # of two workers
CHUNK = 10


class Task(NamedTuple):
    """An architecture and how to find its dimension."""

    spec: str
    method: Literal["exact", "estimate"]


class Outcome(NamedTuple):
    """What was found, and what the formula says."""

    spec: str
    found: int | None
    expected: int
    status: str


def random_specs(count: int, seed: int) -> list[str]:
    """Stacks of up to 4 layers with widths to 6, head ranks to 4 and up to 4 tokens."""
    rng = random.Random(seed)
    specs = []
    for _ in range(count):
        kind = rng.choice(("softmax", "lightning"))
        layers = rng.randint(1, 4)
        widths = ",".join(str(rng.randint(1, 6)) for _ in range(layers + 1))
        ranks = ",".join(str(rng.randint(1, 4)) for _ in range(layers))
        specs.append(f"{kind}/d={widths}/a={ranks}/t={rng.randint(1, 4)}")
    return specs


def solve(task: Task) -> Outcome:
    net = Network.parse(task.spec)
    found = dimension(net, task.method)
    value = found.estimate if task.method == "estimate" else found.value
    return Outcome(task.spec, value, closed_form(net).value, found.status)


def begin(ready: Barrier) -> None:
    """Warm up, and wait until every worker has."""
    blas_threads(1)
    solve(Task("softmax/d=2,2/a=1/t=2", "exact"))
    ready.wait()


@contextmanager
def workers(count: int) -> Iterator[Pool]:
    """Fresh worker processes that have loaded segre and use one BLAS thread each."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(count + 1)
    with context.Pool(count, begin, (ready,)) as pool:
        ready.wait()
        yield pool


def run(
    pool: Pool, specs: Sequence[str], method: Literal["exact", "estimate"]
) -> tuple[list[Outcome], float]:
    """The outcomes, and how many a second."""
    start = perf_counter()
    outcomes = pool.map(solve, [Task(spec, method) for spec in specs], chunksize=CHUNK)
    return outcomes, len(specs) / (perf_counter() - start)


def stored(count: int, workers: int) -> tuple[list[Outcome], float]:
    """The first architectures of the deep softmax conjecture, and how many a second."""
    plan = Plan.from_mapping({**plan_of("deep-softmax").given, "draw": count})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep.db"
        start = perf_counter()
        run_sweep(plan, path, workers=workers)
        seconds = perf_counter() - start
        with Store.open(path) as store:
            rows = list(store.rows())
    outcomes = [Outcome(r.spec, r.lower or 0, r.closed_form or 0, r.status) for r in rows]
    return outcomes, count / seconds


def wrong(outcomes: Sequence[Outcome]) -> list[str]:
    return [x.spec for x in outcomes if x.found != x.expected]


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    specs = random_specs(40 if options.quick else 2000, options.seed)
    some = specs[:200]
    report = Report("sweep", options)
    with workers(1) as pool:
        one, one_rate = run(pool, specs, "exact")
    with workers(2) as pool:
        two, two_rate = run(pool, specs, "exact")
        own, own_rate = run(pool, some, "exact")
        peer, peer_rate = run(pool, some, "estimate")
    alone, alone_rate = stored(len(specs), 1)
    both, both_rate = stored(len(specs), 2)
    if one != two or alone != both:
        raise SystemExit("one worker and two workers do not agree; this is a bug in segre")
    rows = [
        {
            "method": name,
            "workers": count,
            "architectures": len(outcomes),
            "rate": rate,
            "proved": sum(x.status == "proved" for x in outcomes),
            "wrong": len(wrong(outcomes)),
            "ratio": ratio,
        }
        for name, count, outcomes, rate, ratio in (
            ("segre exact", 1, one, one_rate, None),
            ("segre exact", 2, two, two_rate, None),
            ("segre exact", 2, own, own_rate, own_rate / peer_rate),
            ("float64 estimate", 2, peer, peer_rate, 1.0),
            ("segre sweep run", 1, alone, alone_rate, None),
            ("segre sweep run", 2, both, both_rate, None),
        )
    ]
    report.table(
        f"random architectures, seed {options.seed}, one BLAS thread per worker; "
        "wrong = not equal to the closed form",
        {
            "method": ("method", ""),
            "workers": ("workers", ""),
            "architectures": ("architectures", ""),
            "rate": ("per second", ".0f"),
            "ratio": ("rate / float64", ".2f"),
            "proved": ("proved", ""),
            "wrong": ("wrong", ""),
        },
        rows,
    )
    scaling = two_rate / one_rate
    report.remark("scaling", scaling, f"two workers are {scaling:.2f} times as fast as one")
    stored_scaling = both_rate / alone_rate
    report.remark(
        "sweep scaling",
        stored_scaling,
        f"segre sweep run: two workers are {stored_scaling:.2f} times as fast",
    )
    mismatches = wrong([*two, *both])
    report.remark(
        "mismatches",
        mismatches,
        f"mismatches of exact and closed form: {len(mismatches)} of {len(two) + len(both)}"
        + "".join(f"\n  {spec}" for spec in mismatches[:10]),
    )
    verdict = "met" if one_rate >= TARGET and scaling >= SCALING else "missed"
    report.remark(
        "target",
        TARGET,
        f"target: {TARGET} per second on one worker, {SCALING} times as many on two: {verdict} "
        f"({one_rate:.0f}, {scaling:.2f} times)",
    )
    report.finish()


if __name__ == "__main__":
    main()
