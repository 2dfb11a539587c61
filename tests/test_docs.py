"""The documentation runs: every console block prints what it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from checkpoint.models import minilm

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def sessions(page: Path) -> list[tuple[str, str, str]]:
    """(command of a console block, what the block shows after it, what kind of block it is)."""
    found = []
    fenced = re.compile(r"^```console( floats| measured)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
    for kind, block in fenced.findall(page.read_text()):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, shown = step.split("\n", 1)
            found.append((command, shown.rstrip("\n"), kind.strip()))
    return found


def exact_part(text: str) -> list[list[str]]:
    """The columns of a table that do not come from floating point: the first five."""
    return [line.split()[:5] for line in text.splitlines()]


def words(text: str) -> list[str]:
    """The words between measured numbers; which blocks of a checkpoint are listed is measured."""
    listed = re.sub(r"^ *(layer|path) [0-9-].*$", r"\1", text, flags=re.MULTILINE)
    return re.sub(r"[-+]?[0-9][0-9.,e+-]*|\s-(?=\s)", "#", listed).split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_console_blocks(page: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "80"}
    work = tmp_path / "work"
    work.mkdir()
    if " minilm" in page.read_text():
        (work / "minilm").symlink_to(minilm())
    for command, shown, kind in sessions(page):
        run = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            cwd=work,
            env=environment,
        )
        printed = "\n".join(line.rstrip() for line in (run.stdout + run.stderr).splitlines())
        if kind == "floats":  # ranks and gaps of matrices may differ between machines
            assert exact_part(printed) == exact_part(shown), command
        elif kind == "measured":
            assert words(printed) == words(shown), command
        else:
            assert printed == shown, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+\.[a-z]+|[^)#\s]*/)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target
