"""How commands end when the machine says no: names, permissions, full disks, odd weights.

Each command runs as a process of its own. Allowed are an answer without warnings, or exit code 2,
one line of at most 4,000 letters, and a folder in which nothing has changed.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from bench.faults.outputs import FILES, FOLDERS, SPEC, STORES, Tree, prepare, tree
from bench.faults.processes import Ended, ended
from bench.faults.tally import Tally

LONG = "y" * 300
READERS = (
    "dim {}",
    "explain {}",
    "verify {}",
    "analyze {} -o report.html -q",
    "explore {} --no-browser",
    "same {} {}",
    "model move {} -o moved.json",
    "variety point {}",
    "model recover {} --spec lightning/d=3,2/a=3/t=2",
    f"model run {SPEC} -w {{}} -i {{}} -o y.npy",
    "model collapse {}",
    "model paths {}",
    "model diagnose {}",
    "model diagnose demo/base --text {}",
    "model trace {}",
    "diff {} {}",
    "model optimum {}",
    "variety ci --matrix {}",
    "model info {}",
    "model move {} -o moved",
    "same {} {}",
    "model check {} {} {}",
    "model expand {} -o larger",
    "model convert {} -o converted",
    "model lineage {} {}",
    "model hash {}",
    "sweep run {} -o s.db",
    "sweep status {}",
    "sweep verify {}",
    "sweep export {} -o s.csv",
    "model demo {}",
)
WRITERS = (*(f"{command} out{ending}" for command, ending in FILES.items()), *(
    f"{command} out" for command in (*FOLDERS, *STORES)
))  # fmt: skip
CONSTANT = (
    "model paths {}",
    "model trace {} --length 4",
    "model diagnose {} --length 4",
    "model collapse {} --inputs 1 --length 4",
    "model move {} -o out --report",
    "model canonical {} -o out --report",
    "same {} demo/base",
    "diff {} demo/base",
    "model info {}",
    "model hash {}",
)


def small_files() -> None:
    """Let no file grow past 4 kB, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def nobody() -> None:
    """Be a user who may not read what belongs to root."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def _problem(done: Ended, codes: Sequence[int], before: object, folder: Path) -> str | None:
    if done.problem is not None:
        return done.problem
    if done.code not in codes:
        return f"exit code {done.code}: {done.said[:200]}"
    if len(done.said) > 4000:
        return f"a message of {len(done.said):,} letters"
    if done.code == 2 and _lasting(tree(folder)) != before:
        return "refused, and something is left"
    return None


def _lasting(found: Tree) -> Tree:
    """Without what SQLite keeps beside a store that it cannot read, for the next one who does."""
    return {name: one for name, one in found.items() if not name.endswith((".db-wal", ".db-shm"))}


def tried(
    fault: str,
    commands: Sequence[str],
    codes: Sequence[int],
    note: str,
    *hooks: Callable[[], None],
) -> Tally:
    """Run commands in a prepared folder."""
    wrong = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        prepare(folder)
        folder.chmod(0o755)
        (folder / "closed").mkdir(mode=0o700)
        (folder / "closed" / "model").mkdir()
        for name in ("zeros", "ones", "tenths"):
            _constant(
                folder / "demo" / "base", folder / name, {"zeros": 0, "ones": 1}.get(name, 0.1)
            )
        before = _lasting(tree(folder))
        for command in commands:
            done = ended(command.split(" "), folder, *hooks)
            if said := _problem(done, codes, before, folder):
                wrong.append(f"{command[:60]}: {said}")
            for name in {*os.listdir(folder)} - {one.partition("/")[0] for one in before}:  # noqa: PTH208
                gone = folder / name
                shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    return Tally(fault, len(commands), len(wrong), wrong[0] if wrong else note)


def _constant(source: Path, target: Path, value: float) -> None:
    from safetensors.numpy import load_file, save_file

    shutil.copytree(source, target)
    weights = load_file(target / "model.safetensors")
    same = {name: np.full_like(one, value) for name, one in weights.items()}
    save_file(same, target / "model.safetensors", {"format": "pt"})


def tally(quick: bool) -> list[Tally]:
    """Every way of failing, for every command that it concerns."""

    def some(commands: Sequence[str], start: int) -> Sequence[str]:
        return commands[start::8] if quick else commands

    long = [command.replace("{}", LONG) for command in READERS]
    closed = [command.replace("{}", "closed/model") for command in READERS]
    huge = [command.replace("{}", "z" * 100_000) for command in READERS]
    constant = [one.replace("{}", name) for one in CONSTANT for name in ("zeros", "ones", "tenths")]
    one_line = "one line, exit code 2"
    found = [
        tried("a name of 300 letters", some(long, 0), (2,), one_line),
        tried("an argument of 100,000 letters", some(huge, 1), (2,), f"{one_line}, shortened"),
        tried("a full disk", some(WRITERS, 2), (0, 2), f"{one_line}; nothing is left", small_files),
        tried("constant weights", some(constant, 3), (0, 1, 3), "answered without a warning"),
    ]
    if os.geteuid() == 0:
        found.append(
            tried("a directory without permission", some(closed, 4), (2,), one_line, nobody)
        )
    return found
