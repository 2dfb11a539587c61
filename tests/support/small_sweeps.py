"""Small sweeps, and tables without what differs from run to run."""

import copy
import csv
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from segre.sweep.draw import architectures
from segre.sweep.plan import Plan
from segre.sweep.store import Store
from segre.sweep.task import Task, task_of
from support.terminal import warm

SMALL: dict[str, Any] = {
    "kind": ["softmax", "lightning"],
    "draw": 60,
    "seed": 3,
    "compute": ["closed-form", "exact"],
    "claim": "dimension == closed_form",
    "fields": {
        "layers": "1..3",
        "d": {"each": "1..4"},
        "a": {"each": [1, 2]},
        "t": "1..3",
    },
}
TOML = """
kind = ["softmax", "lightning"]
draw = {draw}
seed = 3
compute = ["closed-form", "exact"]
claim = "dimension == closed_form"
[fields]
layers = "1..3"
d = {{ each = "1..4" }}
a = {{ each = [1, 2] }}
t = "1..3"
"""


def small(**changes: Any) -> dict[str, Any]:
    """A small sweep, changed."""
    return {**copy.deepcopy(SMALL), **changes}


NEVER_ENDS = """
import os, time
import segre.sweep.task as task

def solve(given, solve=task.solve):
    while given["digest"] in os.environ["NEVER_ENDS"].split():
        time.sleep(1)
    return solve(given)

task.solve = solve
"""


def never_ending(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """In processes that start from now on, tasks whose digests are in NEVER_ENDS never end."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NEVER_ENDS)
    patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    patch.setenv("NEVER_ENDS", "")


def tasks_of(draw: int) -> Iterator[Task]:
    """The tasks of a small sweep."""
    for drawn in architectures(Plan.from_mapping(small(draw=draw))):
        yield task_of(drawn.spec, ["exact"], 0, 1 << 30)


def table(path: Path) -> list[tuple[Any, ...]]:
    """All columns of a store but the times."""
    with Store.open(path) as store:
        return [
            tuple(str(value) for key, value in vars(row).items() if key not in {"seconds", "bytes"})
            for row in store.rows()
        ]


def segre(*arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """The command line in a process of its own."""
    return subprocess.run(
        [str(warm()), *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1"},
    )


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
