"""The driver and its store: whatever is killed, the table is that of an undisturbed run."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from small_sweeps import SEGRE, TOML, segre, small, table

from segre.errors import SweepError
from segre.geometry.dimension import dimension
from segre.sweep.local import Worker, blas_threads, cores
from segre.sweep.plan import Plan
from segre.sweep.run import run
from segre.sweep.store import Store

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


def start(folder: Path, workers: int = 2) -> "subprocess.Popen[bytes]":
    file = folder / "s.toml"
    file.write_text(TOML.format(draw=MANY))
    command = [SEGRE, "sweep", "run", file, "-o", folder / "s.db", "--workers", str(workers)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def children(pid: int) -> list[int]:
    try:
        return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def finish(folder: Path) -> None:
    process = start(folder)
    _, error = process.communicate()
    assert process.returncode == 0, error


@pytest.mark.slow
def test_kill_the_driver(tmp_path: Path, undisturbed: list[tuple[Any, ...]]) -> None:
    rng = random.Random()
    known: set[tuple[Any, ...]] = set()
    killed = 0
    while killed < 10:
        process = start(tmp_path)
        time.sleep(rng.uniform(0.3, 1.0))
        workers = children(process.pid)
        if process.poll() is None:
            killed += 1
            process.send_signal(signal.SIGKILL)
        process.communicate()
        for _ in range(500):  # workers do not outlive their driver
            if not any(Path(f"/proc/{pid}").exists() for pid in workers):
                break
            time.sleep(0.01)
        else:
            pytest.fail("a worker outlived its driver")
        if (tmp_path / "s.db").exists() and (rows := readable(tmp_path / "s.db")):
            assert len(set(rows)) == len(rows)
            assert known <= set(rows)  # nothing that was finished is lost
            assert set(rows) <= set(undisturbed)
            known = set(rows)
        if process.returncode == 0:  # done: kill another
            assert table(tmp_path / "s.db") == undisturbed
            (tmp_path / "s.db").unlink()
            known = set()
    finish(tmp_path)
    assert table(tmp_path / "s.db") == undisturbed


def readable(path: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        begun = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 3
    db.close()
    try:
        return table(path) if begun else []
    except SweepError:  # killed before the plan was written
        return []


def test_kill_workers(tmp_path: Path, undisturbed: list[tuple[Any, ...]]) -> None:
    rng = random.Random()
    killed = 0
    while killed < 10:
        for file in tmp_path.glob("s.db*"):
            file.unlink()
        process = start(tmp_path)
        while process.poll() is None:
            time.sleep(rng.uniform(0.05, 0.3))
            team = children(process.pid)
            if team and killed < 10:
                os.kill(rng.choice(team), signal.SIGKILL)
                killed += 1
        process.communicate()
        assert process.returncode == 0
        finish(tmp_path)  # what five workers died of, by bad luck, is tried again
        assert table(tmp_path / "s.db") == undisturbed


def test_interrupted_runs_go_on(tmp_path: Path, undisturbed: list[tuple[Any, ...]]) -> None:
    process = start(tmp_path)
    while process.poll() is None and not (tmp_path / "s.db-wal").exists():
        time.sleep(0.01)
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    if process.returncode:  # else it was done before
        assert process.returncode == 130
        assert error.decode().count("\n") == 1
        assert b"the same command goes on" in error
    finish(tmp_path)
    assert table(tmp_path / "s.db") == undisturbed


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
    fields = {"d": 3, "a": 2, "heads": 3, "t": 2}  # dimension 45..48
    given = {"kind": "lightning", "draw": 1, "fields": fields}
    for number, claim in enumerate(
        ["dimension <= 48", "dimension == 44", "dimension == 46", "1 == 9 // (dimension - 46)"]
    ):
        path = tmp_path / f"{number}.db"
        run(Plan.from_mapping({**given, "claim": claim}), path, workers=1)
        with Store.open(path) as store:
            (row,) = store.rows()
        assert (row.lower, row.upper) == (45, 48)
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
