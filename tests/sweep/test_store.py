"""Stores that cannot be used: one line, which says how to go on; what was written is kept."""

import ctypes
import json
import os
import resource
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from segre.errors import SweepError
from segre.sweep.plan import Plan
from segre.sweep.run import drive
from segre.sweep.schema import _TABLES, UNCHECKED, VERSION
from segre.sweep.store import Store
from segre.sweep.task import solve
from support.small_sweeps import TOML, segre, small, table
from support.terminal import SEGRE

PLAN = Plan.from_mapping(small(draw=20))


def make(path: Path, draw: int = 20) -> Any:
    return drive(Plan.from_mapping(small(draw=draw)), path, lambda tasks: map(solve, tasks))


def limited(folder: Path, begin: Callable[[], None], *arguments: str) -> tuple[int, str]:
    """The command line in a process with less than it wants: its code, and the line it says."""
    (folder / "s.toml").write_text(TOML.format(draw=60))
    done = subprocess.run(
        [str(SEGRE), "sweep", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        preexec_fn=begin,
    )
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("segre: "), done.stderr
    return done.returncode, done.stderr


def without_privileges() -> None:
    """Permissions count, for root too."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.parametrize("size", [0, 5_000, 20_000, 60_000])
def test_a_full_disk_stops_a_run_that_goes_on_later(tmp_path: Path, size: int) -> None:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    (tmp_path / "s.toml").write_text(TOML.format(draw=60))
    code, said = limited(tmp_path, full, "run", "s.toml", "-o", "s.db", "--workers", "1")
    assert code == 2
    assert "the same command continues" in said
    before = table(tmp_path / "s.db") if size == 60_000 else []
    make(tmp_path / "s.db", 60)
    make(tmp_path / "other.db", 60)
    found = table(tmp_path / "s.db")
    assert found == table(tmp_path / "other.db")
    assert set(before) <= set(found)


def test_a_read_only_store_is_read_and_not_run(tmp_path: Path) -> None:
    make(tmp_path / "s.db", 60)
    rows = table(tmp_path / "s.db")
    folder = tmp_path / "fixed"
    folder.mkdir()
    (tmp_path / "s.db").rename(folder / "s.db")
    (folder / "s.db").chmod(0o444)
    folder.chmod(0o555)
    try:
        for name in ("fixed/s.db", "fixed/new.db"):
            code, said = limited(tmp_path, without_privileges, "run", "s.toml", "-o", name)
            assert code == 2
            assert "-o" in said
        done = subprocess.run(
            [str(SEGRE), "sweep", "export", "fixed/s.db", "-o", "s.csv"],
            cwd=tmp_path,
            preexec_fn=without_privileges,
            capture_output=True,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert [file.name for file in folder.iterdir()] == ["s.db"]
    finally:
        folder.chmod(0o755)
    assert table(folder / "s.db") == rows


def test_what_is_not_a_file_is_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("folder", "pipe", "link", "loop", "folder/x/y.db"):
        for use in (Store.open, lambda path: Store.create(path, PLAN)):
            with pytest.raises(SweepError) as refused, use(tmp_path / name):
                pass
            assert "\n" not in str(refused.value)


def test_two_names_are_one_store(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "folder" / "s.db")
    (tmp_path / "folder").mkdir()
    with Store.create(tmp_path / "folder" / "s.db", PLAN):
        for name in ("link.db", "folder/../link.db"):
            with (
                pytest.raises(SweepError, match="another run"),
                Store.create(tmp_path / name, PLAN),
            ):
                pass
    make(tmp_path / "link.db")
    assert (tmp_path / "link.db").is_symlink()
    assert len(table(tmp_path / "folder" / "s.db")) == 20
    (tmp_path / "hard.db").hardlink_to(tmp_path / "folder" / "s.db")
    with pytest.raises(SweepError, match="hard link"):
        make(tmp_path / "hard.db")


def test_a_store_of_an_older_segre_is_read_and_gets_checksums(tmp_path: Path) -> None:
    make(tmp_path / "new.db")
    old = tmp_path / "old.db"
    with closing(sqlite3.connect(old)) as db, db:
        for statement in _TABLES[UNCHECKED]:
            db.execute(statement)
        db.execute("ATTACH ? AS new", (str(tmp_path / "new.db"),))
        names = [name for _, name, *_ in db.execute("PRAGMA main.table_info(results)")]
        db.execute(f"INSERT INTO main.results SELECT {', '.join(names)} FROM new.results")
        for key, value in (("version", 1), ("digest", PLAN.digest), ("plan", dict(PLAN.given))):
            db.execute("INSERT INTO main.sweep VALUES (?, ?)", (key, json.dumps(value)))
    rows = table(tmp_path / "new.db")
    assert table(old) == rows
    assert "checksums   none" in segre("sweep", "status", str(old)).stdout
    ran = make(old)
    assert (ran.done, ran.before, ran.mended) == (0, 20, None)
    assert table(old) == rows
    with Store.open(old) as store:
        assert store.version == VERSION
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new.db", "old.db"]


def test_a_damaged_store_of_another_sweep_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    make(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE results SET lower = -100 WHERE rowid = 2")
    held = path.read_bytes()
    other = Plan.from_mapping(small(draw=20, seed=99))
    with pytest.raises(SweepError, match="another sweep"):
        drive(other, path, lambda tasks: map(solve, tasks))
    assert path.read_bytes() == held
    assert [file.name for file in tmp_path.iterdir()] == ["s.db"]


def test_a_damaged_store_is_mended_with_the_claim_of_today(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    make(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE results SET lower = -100 WHERE rowid = 2")
    said = segre("sweep", "status", str(path))
    assert said.returncode == 2
    assert "damaged (1 row has been altered)" in said.stderr
    assert len(said.stderr.splitlines()) == 1
    plan = Plan.from_mapping(small(draw=20, claim="dimension < 12"))
    ran = drive(plan, path, lambda tasks: map(solve, tasks))
    assert (ran.done, ran.before) == (1, 19)
    assert ran.mended is not None
    assert "19 rows were intact" in ran.mended
    assert "s.db.damaged" in ran.mended
    with Store.open(path) as store:
        for row in store.rows():
            assert row.lower is not None
            assert row.claim == ("holds" if row.lower < 12 else "fails")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["s.db", "s.db.damaged"]
