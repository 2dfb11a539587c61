"""Files are written completely or not at all, whatever is there under their name."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from bench.faults.outputs import TARGETS, WRITTEN, tree

from segre.errors import SegreError
from segre.files import identity, read_given, whole_file

KILLED = """
import sys
from segre.files import whole_file
with whole_file(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("begun", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("seed", range(40))
def test_a_block_that_fails_changes_nothing(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    what = rng.choice([name for name, (_, file, *_) in TARGETS.items() if file != "streamed"])
    make, expected, *_ = TARGETS[what]
    path = tmp_path / rng.choice(["out.json", "o" * 240 + ".json", "é" * 100, "no suffix", ".x"])
    make(path)
    before = tree(tmp_path)
    failure = rng.choice([OSError(errno.ENOSPC, "full"), ValueError(), KeyboardInterrupt()])
    with pytest.raises((SegreError, type(failure))), whole_file(path) as temporary:  # noqa: PT012
        temporary.write_text("new"[: rng.randrange(4)])
        raise failure
    assert tree(tmp_path) == before
    if expected == WRITTEN:
        with whole_file(path) as temporary:
            temporary.write_text("new")
        assert path.read_text() == "new"
        assert path.is_symlink() == ("link" in what)
        mode = stat.S_IMODE(path.stat().st_mode)
        umask = os.umask(0)
        os.umask(umask)
        assert mode == (0o666 & ~umask if what == "nothing" else 0o640)
        assert len(tree(tmp_path)) == max(1, len(before))
    else:
        with pytest.raises(SegreError, match="cannot write"), whole_file(path):
            raise AssertionError("it is refused before anything is written")
        assert tree(tmp_path) == before


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(
    tmp_path: Path,
) -> None:
    target = tmp_path / "out.json"
    started = []
    for _ in range(2):
        one = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert one.stdout is not None
        assert one.stdout.readline() == b"begun\n"
        started.append(one)
    dead, living = started
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    assert len(tree(tmp_path)) == 2
    with whole_file(target) as temporary:
        temporary.write_text("whole")
    names = set(tree(tmp_path)) - {"out.json"}
    assert len(names) == 1
    assert str(living.pid) in names.pop()
    living.communicate()
    assert target.read_text() == "half"
    assert set(tree(tmp_path)) == {"out.json"}
    assert dead.stdin is not None
    assert dead.stdout is not None
    dead.stdin.close()
    dead.stdout.close()


def test_the_file_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, synced = tmp_path / "out", []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (synced.append(target.exists()), fsync(handle))[1]
    )
    with whole_file(target) as temporary:
        temporary.write_text("x")
    assert synced == [False, True]  # the file before, and its directory after


def test_a_file_that_changes_as_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "given"
    path.write_text("one")
    assert read_given(path, 100) == b"one"
    seen = iter([identity(path), (0, 0, 0, 0)])
    monkeypatch.setattr("segre.files.identity", lambda _: next(seen))
    with pytest.raises(OSError, match="changed while it was read"):
        read_given(path, 100)
