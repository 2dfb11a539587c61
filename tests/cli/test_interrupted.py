"""Ctrl-C, and being asked to end, leave whole files or none, and one true line."""

import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from support.checkpoints import minilm
from support.processes import computing, wait_until
from support.terminal import SEGRE, environment, run

SIGNALS = pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
LONG = "softmax/d=40,40,40,40/a=2/t=3"
DEEP = "softmax/d=" + ",".join(["24"] * 40) + "/a=8/heads=2/t=8"
STUDY = f"model collapse {DEEP} --certify --inputs 50 --plot plot.png"
FORWARD = "model collapse bert-base-uncased --inputs 400 --plot plot.png"
_PATIENCE = 600.0


def interrupted(
    line: str, folder: Path, sent: signal.Signals, begun: Callable[[], bool] | None = None
) -> str:
    """Start a command, interrupt it once it has begun, and give what it says."""
    scratch = folder.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [str(SEGRE), *line.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(TMPDIR=str(scratch)),
    )
    try:
        wait_until(process, begun or computing(process, 1.0))
        process.send_signal(sent)
        printed, said = process.communicate(timeout=_PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130, (printed, said)
    assert printed == ""
    assert said.count("\n") == 1, said
    assert said.startswith("segre: interrupted; ")
    left = [path.name for path in scratch.iterdir()]
    assert [name for name in left if not name.startswith("torchinductor")] == []  # a cache
    return said.removeprefix("segre: interrupted; ").rstrip("\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty directory to work in."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@SIGNALS
@pytest.mark.parametrize(
    "line",
    [f"certify {LONG} -o cert.json", f"dim {LONG} --json", STUDY, FORWARD],
    ids=lambda line: line.split()[0] + " " + line.split()[1][:20],
)
def test_nothing_is_left(line: str, sent: signal.Signals, folder: Path) -> None:
    assert interrupted(line, folder, sent) == "nothing was written"
    assert list(folder.iterdir()) == []


@SIGNALS
@pytest.mark.parametrize("command", ["canonical", "move", "align", "merge", "shrink"])
def test_a_model_is_written_whole_or_not_at_all(
    command: str, sent: signal.Signals, folder: Path
) -> None:
    """In the middle of writing it: the temporary directory is there, and then it is not."""
    model = minilm()
    given = [str(model)] * (2 if command in ("align", "merge") else 1)
    line = f"model {command} {' '.join(given)} -o out"
    said = interrupted(line, folder, sent, begun=lambda: any(folder.glob(".out.*")))
    assert said == "nothing was written"
    assert list(folder.iterdir()) == []


def test_what_was_written_before_is_named(folder: Path) -> None:
    """A witness is written, and then read again and checked, which takes its time."""
    model, file = minilm(), folder / "turn.safetensors"
    moved = folder.parent / "moved"
    assert run("model", "move", model, "-o", moved).returncode == 0
    line = f"same {model} {moved} --witness {file.name}"
    said = interrupted(line, folder, signal.SIGINT, begun=file.exists)
    assert said == f"written before that: {file.name}"
    assert list(folder.iterdir()) == [file]


SWEEP = "sweep run deep-softmax -o sweep.db --workers 1"
KEPT = "finished work is kept in 'sweep.db'; to continue, run the same command"


def rows(store: Path) -> int:
    """How many rows a store has that may just be made."""
    if not store.exists():
        return 0
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
        try:
            return int(db.execute("SELECT COUNT(*) FROM results").fetchone()[0])
        except sqlite3.Error:
            return 0


@SIGNALS
def test_a_sweep_keeps_its_rows(sent: signal.Signals, folder: Path) -> None:
    store = folder / "sweep.db"
    assert interrupted(SWEEP, folder, sent, begun=lambda: rows(store) > 2) == KEPT
    assert list(folder.iterdir()) == [store]  # no lock, no journal
    before = rows(store)
    assert before > 2
    assert interrupted(SWEEP, folder, sent, begun=lambda: rows(store) > before) == KEPT
    assert rows(store) > before


@SIGNALS
def test_a_sweep_that_has_just_begun_leaves_a_store_or_nothing(
    sent: signal.Signals, folder: Path
) -> None:
    store = folder / "sweep.db"
    said = interrupted(SWEEP, folder, sent, begun=store.exists)
    assert said == (KEPT if store.exists() else "nothing was written")
    assert list(folder.iterdir()) == [store] * store.exists()
    if store.exists():
        assert run("sweep", "status", store).returncode == 0


@SIGNALS
def test_an_experiment_keeps_its_training(sent: signal.Signals, folder: Path) -> None:
    state = folder / "path-sort.run"
    line = "reproduce path-sort --epochs 5000"
    said = interrupted(line, folder, sent, begun=state.exists)
    assert said == "finished work is kept in 'path-sort.run'; to continue, run the same command"
    before = state.stat().st_mtime_ns

    def anew() -> bool:
        return state.exists() and state.stat().st_mtime_ns != before

    said = interrupted(f"{line} --fresh", folder, sent, begun=anew)
    kept = "finished work is kept in 'path-sort.run'; to continue, run the same command"
    assert said == f"{kept} without --fresh"
    assert list(folder.iterdir()) == [state]


def test_an_experiment_that_has_not_begun_says_so(folder: Path) -> None:
    line = "reproduce path-sort --epochs 5000 --train 1000000"
    assert interrupted(line, folder, signal.SIGINT) == "nothing was written"
    assert list(folder.iterdir()) == []
