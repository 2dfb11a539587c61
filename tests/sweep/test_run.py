"""The driver and its store: however a sweep is done, the table is the same.

What is killed, and what is damaged, is in bench/faults; tests/bench tries a little of it.
"""

import json
import random
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from bench.faults.kills import Killed

from segre.errors import SweepError
from segre.geometry.dimension import dimension
from segre.sweep.local import Worker, blas_threads, cores
from segre.sweep.plan import Plan
from segre.sweep.run import run
from segre.sweep.store import Store
from support.small_sweeps import TOML, segre, small, table

MANY = 150


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """The table of one run that nothing happened to."""
    path = tmp_path_factory.mktemp("undisturbed") / "s.db"
    run(Plan.from_mapping(small(draw=MANY)), path, workers=1)
    rows = table(path)
    assert len(rows) == MANY
    assert [file.name for file in path.parent.iterdir()] == ["s.db"]
    return rows


def test_interrupted_runs_go_on(tmp_path: Path) -> None:
    sweep = Killed(tmp_path, random.Random(1))
    process = sweep.start()
    sweep.wait_for_some(process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    if process.returncode:  # else it was done before
        assert process.returncode == 130
        assert error.decode().count("\n") == 1
        assert b"run the same command" in error or b"nothing was written" in error
    sweep.end(sweep.start())
    assert sweep.problems == []


def test_limits_workers_and_longer_draws_change_nothing(
    tmp_path: Path, undisturbed: list[tuple[Any, ...]]
) -> None:
    path = tmp_path / "s.db"
    first = run(Plan.from_mapping(small(draw=20)), path, workers=2, limit=7)
    assert (first.done, first.before, first.total) == (7, 0, 20)
    second = run(Plan.from_mapping(small(draw=20)), path, workers=3)
    assert (second.done, second.before, second.total) == (13, 7, 20)
    assert table(path) == undisturbed[:20]
    run(Plan.from_mapping(small(draw=MANY)), path, workers=1)
    assert table(path) == undisturbed
    again = run(Plan.from_mapping(small(draw=MANY)), path, workers=1)
    assert (again.done, again.before) == (0, MANY)


def test_all_hold_and_are_proved(undisturbed: list[tuple[Any, ...]]) -> None:
    assert all("proved" in row and "holds" in row for row in undisturbed)


def test_one_store_holds_one_sweep(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    run(Plan.from_mapping(small(draw=3)), path, workers=1)
    for other in (small(draw=3, seed=4), small(draw=3, where="t == 1"), small(kind="softmax")):
        with pytest.raises(SweepError, match="another sweep"):
            run(Plan.from_mapping(other), path, workers=1)
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE precious (x)")
    db.close()
    held = (tmp_path / "other.db").read_bytes()
    with pytest.raises(SweepError, match="not the store"):
        run(Plan.from_mapping(small(draw=3)), tmp_path / "other.db", workers=1)
    assert (tmp_path / "other.db").read_bytes() == held
    (tmp_path / "text.db").write_text("not a database, but long enough to be looked at" * 100)
    for wrong in ("text.db", "none.db", "no/folder.db"):
        with pytest.raises(SweepError), Store.open(tmp_path / wrong):
            pass
    with pytest.raises(SweepError):
        run(Plan.from_mapping(small()), tmp_path / "text.db", workers=1)
    with pytest.raises(SweepError):
        run(Plan.from_mapping(small()), tmp_path / "no" / "folder.db", workers=1)


@pytest.mark.parametrize("claim", ["dimension", "d == 1", "kind + 1 == 2", "d[9] == 1", "a and l"])
def test_a_claim_that_is_none_is_refused_before_anything_is_written(
    tmp_path: Path, claim: str
) -> None:
    with pytest.raises(SweepError, match="claim"):
        run(Plan.from_mapping(small(claim=claim)), tmp_path / "s.db", workers=1)
    assert not list(tmp_path.iterdir())


def test_transformers_are_swept_too(tmp_path: Path) -> None:
    fields = {"d": 4, "heads": "1..2", "ff": "2..4", "t": "2..3"}
    plan = {"kind": "llama", "exhaustive": True, "fields": fields, "claim": "lower == upper"}
    run(Plan.from_mapping(plan), tmp_path / "s.db", workers=2)
    with Store.open(tmp_path / "s.db") as store:
        rows = list(store.rows())
    assert len(rows) == 12
    for row in rows:
        found = dimension(row.spec, "exact")
        assert (row.lower, row.upper, row.status) == (found.lower, found.upper, found.status)
        assert row.claim == ("holds" if found.status == "proved" else "fails")


def test_one_driver_at_a_time(tmp_path: Path) -> None:
    plan = Plan.from_mapping(small(draw=3))
    with (
        Store.create(tmp_path / "s.db", plan),
        pytest.raises(SweepError, match="another run"),
    ):
        run(plan, tmp_path / "s.db", workers=1)
    assert run(plan, tmp_path / "s.db", workers=1).done == 3


def test_a_new_claim_is_judged_on_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    run(Plan.from_mapping(small(draw=30)), path, workers=2)
    ran = run(Plan.from_mapping(small(draw=30, claim="dimension < 12")), path, workers=1)
    assert ran.done == 0
    with Store.open(path) as store:
        rows = list(store.rows())
        assert len(list(store.rows("fails"))) == sum(r.lower >= 12 for r in rows) > 0
    assert all(r.claim == ("holds" if r.lower < 12 else "fails") for r in rows)


def test_what_does_not_fit_is_not_started_and_is_tried_with_more_memory(tmp_path: Path) -> None:
    plan = Plan.from_mapping(small(draw=5, fields={**small()["fields"], "d": {"each": "2..5"}}))
    path = tmp_path / "s.db"
    run(plan, path, workers=1, memory=1 << 20)
    with Store.open(path) as store:
        assert {(r.status, r.claim) for r in store.rows()} == {("too-large", "undecided")}
    assert run(plan, path, workers=1).done == 5
    with Store.open(path) as store:
        assert {(r.status, r.claim) for r in store.rows()} == {("proved", "holds")}


def test_bounds_that_do_not_meet_decide_what_they_can(tmp_path: Path) -> None:
    fields = {"layers": 1, "d": {"each": "2..4"}, "a": 2, "heads": 3, "dv": 1, "t": 2}
    only = "d[0] == 2 and d[1] == 4"  # dimension 21..24
    given = {"kind": "lightning", "draw": 1, "fields": fields, "where": only}
    for number, claim in enumerate(
        ["dimension <= 24", "dimension == 0", "dimension == 22", "1 == 9 // (dimension - 22)"]
    ):
        path = tmp_path / f"{number}.db"
        run(Plan.from_mapping({**given, "claim": claim}), path, workers=1)
        with Store.open(path) as store:
            (row,) = store.rows()
        assert (row.lower, row.upper) == (21, 24)
        assert row.claim == ("holds", "fails", "undecided", "undefined")[number]


def test_threads_and_workers_together_are_no_more_than_the_cores() -> None:
    for workers in range(1, 10):
        assert blas_threads(workers) >= 1
        assert workers * blas_threads(workers) <= max(cores(), workers)


REPORTS_ITS_THREADS = """
import json, os

def leave(code, leave=os._exit):
    from threadpoolctl import threadpool_info
    with open({file!r}, "w") as file:
        json.dump([p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"], file)
    leave(code)

os._exit = leave
"""


@pytest.mark.parametrize("threads", range(1, min(3, cores()) + 1))
def test_workers_have_the_threads_they_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    report = tmp_path / "threads.json"
    (tmp_path / "sitecustomize.py").write_text(REPORTS_ITS_THREADS.format(file=str(report)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    worker = Worker(threads)
    try:
        assert worker.hear() == []  # it is ready
        assert worker.process.stdin is not None
        worker.process.stdin.close()
        assert worker.process.wait() == 0
    finally:
        worker.stop()
    found = json.loads(report.read_text())
    assert found == [threads] * len(found) != []


def test_the_command_line_lists_counterexamples_first(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(TOML.format(draw=20).replace("== closed_form", "< 9"))
    listed = json.loads(segre("sweep", "list", "--json").stdout)["sweeps"]
    assert listed["deep-softmax"]["claim"] == "dimension == closed_form"
    done = segre("sweep", "run", str(file), "-o", str(tmp_path / "s.db"))
    assert done.returncode == 1
    first = done.stdout.splitlines()[0]
    assert first.endswith("to dimension < 9")
    status = segre("sweep", "status", str(tmp_path / "s.db"), "--json")
    assert status.returncode == 1
    found = json.loads(status.stdout)
    assert str(found["counterexamples"]) == first.split()[0]
    assert all(row["lower"] >= 9 for row in found["first_counterexamples"])
