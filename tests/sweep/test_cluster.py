"""A cluster of real processes gives the same table, one of its workers killed on the way."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import segre.sweep.cluster as segre_cluster
from segre.errors import StoppedRunError
from segre.sweep.cluster import solve_on_cluster
from segre.sweep.plan import Plan
from segre.sweep.run import run
from segre.sweep.store import Store
from segre.sweep.task import Task
from support.small_sweeps import TOML, never_ending, segre, small, table, tasks_of
from support.terminal import SEGRE

DRAW = 150


@contextmanager
def cluster(
    folder: Path,
) -> Iterator[tuple[str, list["subprocess.Popen[bytes]"], "subprocess.Popen[bytes]"]]:
    """The address, two workers, and the scheduler, without what would restart them."""
    file = folder / "scheduler.json"
    environment = {**os.environ, "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical"}

    def start(*arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments, "--scheduler-file", str(file)],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    workers: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(2000):
            if file.exists() and file.stat().st_size:
                break
            time.sleep(0.02)
        address = json.loads(file.read_text())["address"]
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard")
        workers = [start("worker", *options) for _ in range(2)]
        code = f"import distributed; distributed.Client({address!r}).wait_for_workers(2, 60)"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        yield address, workers, scheduler
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


@pytest.mark.slow
def test_the_table_is_the_same_with_a_worker_killed(tmp_path: Path) -> None:
    run(Plan.from_mapping(small(draw=DRAW)), tmp_path / "local.db", workers=1)
    (tmp_path / "s.toml").write_text(TOML.format(draw=DRAW))
    with cluster(tmp_path) as (address, workers, _):
        command = [SEGRE, "sweep", "run", "s.toml", "-o", "s.db", "--dask", address]
        driver = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE)
        while driver.poll() is None:
            with_rows = tmp_path / "s.db-wal"
            if with_rows.exists() and with_rows.stat().st_size > 50_000:
                workers[0].kill()
                break
            time.sleep(0.01)
        else:
            pytest.fail("the sweep was over before a worker could be killed")
        _, said = driver.communicate()
        assert (driver.returncode, said) == (0, b"")
        assert workers[0].wait() < 0
        assert workers[1].poll() is None
    assert table(tmp_path / "s.db") == table(tmp_path / "local.db")


@pytest.mark.slow
def test_limits_lost_workers_and_a_lost_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_ending(tmp_path / "site", monkeypatch)
    slow = [task["digest"] for task in tasks_of(12)][3]
    monkeypatch.setenv("NEVER_ENDS", slow)
    with cluster(tmp_path) as (address, workers, scheduler):
        plan = Plan.from_mapping(small(draw=12))
        ran = run(plan, tmp_path / "s.db", dask=address, timeout=5.0)
        assert (ran.done, ran.timed_out) == (12, 1)
        with Store.open(tmp_path / "s.db") as store:
            assert [row.digest for row in store.rows() if row.status != "proved"] == [slow]
        for worker in workers:
            worker.kill()
            worker.wait()
        monkeypatch.setattr(segre_cluster, "LONELY", 1)
        with pytest.raises(StoppedRunError, match="no workers for 1 s"):
            list(solve_on_cluster(tasks_of(3), address))
        monkeypatch.setattr(segre_cluster, "LONELY", 10**6)

        def tasks() -> Iterator[Task]:
            for task in tasks_of(3):
                yield task
                scheduler.kill()

        with pytest.raises(StoppedRunError, match="scheduler is lost"):
            list(solve_on_cluster(tasks(), address))


def test_no_scheduler_is_an_error_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(TOML.format(draw=3))
    for address in ("nonsense", "tcp://127.0.0.1:1", "evil://x"):
        arguments = ("sweep", "run", "s.toml", "-o", "s.db", "--dask", address)
        done = segre(*arguments, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
