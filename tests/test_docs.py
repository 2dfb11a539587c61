"""The documentation runs: every console block prints what it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def sessions(page: Path) -> list[tuple[str, str, bool]]:
    """(command of a console block, what the block shows after it, whether it has floats)."""
    found = []
    fenced = re.compile(r"^```console( floats)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
    for floats, block in fenced.findall(page.read_text()):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, shown = step.split("\n", 1)
            found.append((command, shown.rstrip("\n"), bool(floats)))
    return found


def exact_part(text: str) -> list[list[str]]:
    """The columns of a table that do not come from floating point: the first five."""
    return [line.split()[:5] for line in text.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_console_blocks(page: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "80"}
    for command, shown, floats in sessions(page):
        run = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
        )
        printed = "\n".join(line.rstrip() for line in (run.stdout + run.stderr).splitlines())
        if floats:  # ranks and gaps of floating-point matrices may differ between machines
            assert exact_part(printed) == exact_part(shown), command
        else:
            assert printed == shown, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+\.[a-z]+|[^)#\s]*/)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target
